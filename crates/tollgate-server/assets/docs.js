"use strict";
// Draws openapi.json. Everything that comes from it goes in as text, never as HTML.
let doc;

function make(tag, options, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "class") element.className = value;
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// `code` between backquotes, the rest as it is.
function prose(text, tag) {
  const parts = String(text || "").split("`");
  const nodes = parts.map((part, n) => (n % 2 ? make("code", {}, part) : part));
  return make(tag || "span", {}, ...nodes);
}

function resolve(part) {
  let found = part;
  for (let hops = 0; found && found.$ref && hops < 20; hops++) {
    found = found.$ref.slice(2).split("/").reduce((at, key) => at[key.replace(/~1/g, "/")], doc);
  }
  return found || {};
}

const nameOf = (part) => (part && part.$ref ? part.$ref.split("/").pop() : "");

// A schema in a few words.
function kind(part) {
  const schema = resolve(part);
  const choices = schema.oneOf || schema.anyOf;
  if (choices) return choices.map(kind).join(" or ");
  const name = nameOf(part);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return "array of " + kind(schema.items);
  const types = [].concat(schema.type || "any").join(" or ");
  const limits = [];
  if (schema.format) limits.push(schema.format);
  if (schema.minimum !== undefined && schema.maximum !== undefined && schema.maximum < 2 ** 53) {
    limits.push(schema.minimum + " to " + schema.maximum);
  }
  if (schema.maxLength) limits.push("up to " + schema.maxLength);
  if (schema.default !== undefined) limits.push("default " + JSON.stringify(schema.default));
  const known = name ? name + " (" + types + ")" : types;
  return known + (limits.length ? ", " + limits.join(", ") : "");
}

// All properties of a schema, through references and combinations.
function fields(part) {
  const schema = resolve(part);
  let found = [];
  for (const piece of schema.allOf || []) found = found.concat(fields(piece));
  for (const [name, property] of Object.entries(schema.properties || {})) {
    found.push({ name, property, needed: (schema.required || []).includes(name) });
  }
  return found;
}

function schemaTable(part, depth) {
  const schema = resolve(part);
  const choices = schema.oneOf || schema.anyOf;
  if (choices) return make("div", {}, ...choices.map((choice) => schemaDetails(choice, depth)));
  if (schema.type === "array") return schemaTable(schema.items, depth);
  const rows = fields(part).map(({ name, property, needed }) => {
    const target = property.oneOf ? property.oneOf[0] : property;
    const about = property.description || target.description || resolve(target).description;
    const inner = resolve(target).type === "array" ? resolve(target).items : target;
    const deeper = depth < 4 && fields(inner).length ? schemaDetails(inner, depth + 1) : null;
    return make("tr", {},
      make("td", { class: "name" }, name, needed ? null : make("span", { class: "kind" }, " ?")),
      make("td", {}, prose(about), make("div", { class: "kind" }, kind(property)), deeper));
  });
  return make("table", {}, make("tbody", {}, ...rows));
}

function schemaDetails(part, depth) {
  const label = nameOf(part) || "fields";
  const box = make("details", {}, make("summary", {}, label));
  box.addEventListener("toggle", () => {
    if (box.open && box.childNodes.length === 1) box.append(schemaTable(part, depth));
  });
  return box;
}

function parameterRow(parameter, inputs) {
  const schema = resolve(parameter.schema);
  const item = schema.type === "array" ? resolve(schema.items) : schema;
  const words = schema.type === "boolean" ? ["true", "false"] : schema.type === "array" ? null : item.enum;
  let input;
  if (words) {
    input = make("select", { ariaLabel: parameter.name }, make("option", { value: "" }, ""),
      ...words.map((word) => make("option", { value: word }, word)));
  } else {
    const hint = (schema.examples || [])[0] || schema.default || (item.enum || []).join(",");
    input = make("input", { ariaLabel: parameter.name, placeholder: hint === undefined ? "" : String(hint) });
  }
  inputs.push({ parameter, input });
  return make("tr", {},
    make("td", { class: "name" }, parameter.name,
      parameter.required ? make("div", { class: "needed" }, "required") : null),
    make("td", {}, prose(parameter.description),
      make("div", { class: "kind" }, parameter.in + ", " + kind(parameter.schema))),
    make("td", { class: "input" }, input));
}

function bodyEditor(body) {
  if (!body) return null;
  const content = Object.values(body.content)[0];
  const examples = Object.entries(content.examples || {}).map(([name, example]) => [name, resolve(example)]);
  // The most common call first.
  examples.sort(([a], [b]) => (b === "transfer") - (a === "transfer"));
  const show = (example) => JSON.stringify(example.value, null, 2);
  const area = make("textarea", { spellcheck: false, ariaLabel: "Body",
    value: examples.length ? show(examples[0][1]) : "{}" });
  const choice = make("select", { ariaLabel: "Example" },
    ...examples.map(([name, example]) => make("option", { value: name }, example.summary || name)));
  choice.onchange = () => { area.value = show(examples[choice.selectedIndex][1]); };
  return { area, box: make("div", {}, make("h3", {}, "Body"), prose(body.description, "p"),
    examples.length > 1 ? make("div", { class: "row" }, choice) : null, area,
    schemaDetails(content.schema, 0)) };
}

// Someone who is logged in sends with the session's token; others type a key.
const session = document.getElementById("session");
const keyBox = document.getElementById("key");
const typedKey = () => (keyBox ? keyBox.value.trim() : "");

// The address and the headers that the inputs make.
function written(path, inputs) {
  let url = path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { parameter, input } of inputs) {
    const value = input.value.trim();
    if (parameter.in === "path") url = url.replace("{" + parameter.name + "}", encodeURIComponent(value));
    else if (value && parameter.in === "query") query.set(parameter.name, value);
    else if (value && parameter.in === "header") headers[parameter.name] = value;
  }
  if ([...query].length) url += "?" + query;
  return { url, headers };
}

// The same call for a shell.
function curl(path, verb, inputs, editor) {
  const quoted = (text) => "'" + text.replace(/'/g, "'\\''") + "'";
  const { url, headers } = written(path, inputs);
  const words = ["curl"];
  if (verb !== "get") words.push("-X " + verb.toUpperCase());
  words.push(quoted(location.origin + url));
  if (session || typedKey()) words.push("-H 'authorization: Bearer '\"$TOLLGATE_API_KEY\"");
  if (editor) headers["content-type"] = "application/json";
  for (const [name, value] of Object.entries(headers)) words.push("-H " + quoted(name + ": " + value));
  if (editor) words.push("-d " + quoted(editor.area.value));
  return words.join(" \\\n  ");
}

async function send(path, verb, inputs, editor, out, button) {
  const { url, headers } = written(path, inputs);
  if (editor) headers["content-type"] = "application/json";
  if (session) headers["x-csrf-token"] = session.dataset.csrf;
  else if (typedKey()) headers.authorization = "Bearer " + typedKey();
  button.disabled = true;
  out.replaceChildren(make("p", { class: "kind" }, "Waiting …"));
  const begun = performance.now();
  try {
    const answer = await fetch(url, { method: verb.toUpperCase(), headers, body: editor ? editor.area.value : undefined });
    const text = await answer.text();
    const took = Math.round(performance.now() - begun);
    let shown = text;
    if ((answer.headers.get("content-type") || "").includes("json")) {
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { shown = text; }
    }
    const told = ["x-request-id", "retry-after", "x-next-cursor"]
      .filter((name) => answer.headers.get(name)).map((name) => name + ": " + answer.headers.get(name));
    out.replaceChildren(
      make("div", { class: "row" },
        make("span", { class: "status " + (answer.ok ? "good" : "bad") }, answer.status + " " + answer.statusText),
        make("span", { class: "kind" }, took + " ms"), make("span", { class: "kind" }, told.join("   "))),
      make("pre", { tabIndex: 0 }, shown));
  } catch (error) {
    out.replaceChildren(make("p", { class: "status bad" }, "No answer: " + error.message));
  }
  button.disabled = false;
}

function answers(responses) {
  const rows = Object.entries(responses).map(([status, part]) => {
    const response = resolve(part);
    const content = Object.entries(response.content || {});
    const problem = (response.content || {})["application/problem+json"];
    const about = problem
      ? make("div", { class: "codes" }, ...Object.keys(problem.examples || {}).map((code) =>
          make("a", { href: "docs/errors/" + code, title: resolve(problem.examples[code]).summary }, code)))
      : make("div", {}, prose(response.description), ...content.map(([type, body]) =>
          fields(body.schema).length || resolve(body.schema).oneOf || resolve(body.schema).anyOf
            ? schemaDetails(body.schema, 0) : make("div", { class: "kind" }, type)));
    return make("tr", {}, make("td", { class: "name" },
      make("span", { class: "status " + (status < "400" ? "good" : "bad") }, status)), make("td", {}, about));
  });
  return make("table", {}, make("tbody", {}, ...rows));
}

function draw(path, verb, operation) {
  const inputs = [];
  const rows = (operation.parameters || []).map((part) => parameterRow(resolve(part), inputs));
  const editor = bodyEditor(operation.requestBody && resolve(operation.requestBody));
  const out = make("div", { ariaLive: "polite" });
  const button = make("button", { type: "button" }, "Send");
  button.onclick = () => send(path, verb, inputs, editor, out, button);
  const command = make("pre", { tabIndex: 0 });
  const show = () => { command.textContent = curl(path, verb, inputs, editor); };
  const line = make("details", {}, make("summary", {}, "curl"), command);
  line.addEventListener("toggle", show);
  const section = make("section", { id: operation.operationId },
    make("header", {}, make("span", { class: "verb " + verb }, verb.toUpperCase()),
      make("span", { class: "path" }, path), make("span", { class: "summary" }, operation.summary || "")),
    make("div", {},
      operation.description ? prose(operation.description, "p") : null,
      rows.length ? make("h3", {}, "Parameters") : null,
      rows.length ? make("table", {}, make("tbody", {}, ...rows)) : null,
      editor ? editor.box : null,
      make("div", { class: "row" }, button), out, line,
      make("h3", {}, "Answers"), answers(operation.responses)));
  section.addEventListener("input", show);
  section.addEventListener("change", show);
  return section;
}

function drawAll() {
  document.getElementById("version").textContent = "API " + doc.info.version + ", OpenAPI " + doc.openapi;
  document.getElementById("about").replaceChildren(
    ...String(doc.info.description || "").split("\n\n").map((text) => prose(text, "p")),
    make("p", {}, make("a", { href: "openapi.json" }, "openapi.json")));
  const links = document.getElementById("links");
  const sections = [];
  for (const tag of doc.tags || []) {
    const heading = make("h2", { title: tag.description || "" }, tag.name);
    links.append(heading);
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const [verb, operation] of Object.entries(item)) {
        if (!(operation.tags || []).includes(tag.name)) continue;
        const section = draw(path, verb, operation);
        const link = make("a", { href: "#" + operation.operationId },
          make("span", { class: "verb " + verb }, verb.toUpperCase()), operation.summary || path);
        links.append(link);
        sections.push({ section, link, heading, words: (verb + path + operation.summary).toLowerCase() });
      }
    }
  }
  document.getElementById("operations").replaceChildren(...sections.map((entry) => entry.section));
  document.getElementById("filter").oninput = (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const entry of sections) {
      entry.section.hidden = entry.link.hidden = !entry.words.includes(wanted);
    }
    for (const heading of new Set(sections.map((entry) => entry.heading))) {
      heading.hidden = sections.every((entry) => entry.heading !== heading || entry.link.hidden);
    }
  };
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
}

fetch("openapi.json").then((answer) => answer.json()).then((found) => { doc = found; drawAll(); })
  .catch((error) => {
    document.getElementById("operations").replaceChildren(
      make("p", { class: "status bad" }, "The document could not be read: " + error.message));
  });
