"""What scripts/patroni runs on: etcd, PostgreSQL servers managed by Patroni, HAProxy, in a folder of their own."""

import collections
import datetime
import glob
import http.client
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 180


def die(why):
    sys.exit(f"patroni: {why}")


def free_ports(count):
    """Ports that nobody listens on, below those that the system gives to outgoing connections."""
    ports = []
    while len(ports) < count:
        port = random.randrange(15000, 30000)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


def until(what, condition, seconds=PATIENCE, pause=0.1):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s in vain for {what}")
        time.sleep(pause)
    return found


def request(port, method, path, body=None, timeout=2):
    """Status and body of a call; (0, the error) if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error).encode()
    finally:
        connection.close()


def children_of(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue
        if int(text.rsplit(") ", 1)[1].split()[1]) == pid:
            found.append(int(text.split()[0]))
    return found


def send_signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Host:
    """The folder of a run and the processes in it."""

    def __init__(self, logs):
        self.logs = logs
        self.work = tempfile.mkdtemp(prefix="tollgate-patroni.")
        os.chmod(self.work, 0o755)
        self.processes = []
        self.members = []
        # The server refuses to run as root.
        self.server_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self.server_folder = self.folder("members")

    def folder(self, name):
        path = os.path.join(self.work, name)
        os.mkdir(path, 0o700)
        if self.server_user:
            shutil.chown(path, "postgres", "postgres")
        return path

    def start(self, name, command, as_server=False, **environment):
        log = open(os.path.join(self.work, f"{name}.log"), "a")
        user = self.server_user if as_server else {}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.server_folder if as_server else None,
            start_new_session=True, env={**os.environ, "HOME": self.work, **environment}, **user)
        log.close()
        self.processes.append(process)
        return process

    def remove(self):
        for member in self.members:
            member.end()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.logs:
            os.makedirs(self.logs, exist_ok=True)
            for path in glob.glob(os.path.join(self.work, "*.log")):
                shutil.copy(path, self.logs)
        shutil.rmtree(self.work, ignore_errors=True)


class Member:
    """A PostgreSQL server and the Patroni that manages it: one machine."""

    def __init__(self, host, name, ports, etcd_port, passwords, bin_dir, arguments):
        self.host, self.name = host, name
        self.port, self.rest_port = ports
        folder = os.path.join(host.server_folder, name)
        self.data = os.path.join(folder, "data")
        self.config = os.path.join(host.work, f"{name}.json")
        self.process = None
        settings = {
            "scope": "tollgate",
            "name": name,
            "restapi": {"listen": f"127.0.0.1:{self.rest_port}", "connect_address": f"127.0.0.1:{self.rest_port}"},
            arguments.etcd: {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": arguments.ttl,
                    "loop_wait": max(1, arguments.ttl // 10),
                    "retry_timeout": max(3, arguments.ttl // 4),
                    "synchronous_mode": not arguments.asynchronous,
                    "synchronous_mode_strict": not arguments.asynchronous,
                    # A crashed primary is not waited for: a synchronous standby has every commit.
                    "primary_start_timeout": 0,
                    "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 60}},
                },
                "initdb": [{"encoding": "UTF8"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": self.data,
                "bin_dir": bin_dir,
                "pgpass": os.path.join(folder, "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": passwords["postgres"]},
                    "replication": {"username": "replicator", "password": passwords["replicator"]},
                },
                "parameters": {"unix_socket_directories": folder, "log_timezone": "UTC"},
                "pg_hba": [
                    "local all all scram-sha-256",
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication replicator 127.0.0.1/32 scram-sha-256",
                ],
            },
            "watchdog": {"mode": "off"},
        }
        with open(self.config, "w") as file:
            json.dump(settings, file)
        os.mkdir(folder, 0o700)
        if host.server_user:
            shutil.chown(folder, "postgres", "postgres")
            shutil.chown(self.config, "postgres", "postgres")
        os.chmod(self.config, 0o600)
        host.members.append(self)

    def start(self):
        self.process = self.host.start(self.name, ["patroni", self.config], as_server=True)

    def leads(self):
        return request(self.rest_port, "GET", "/primary", timeout=1)[0] == 200

    def standby_joined(self, since):
        """Seconds from `since` (wall clock) until this server had a synchronous standby, by its log; or None."""
        with open(os.path.join(self.host.work, f"{self.name}.log"), errors="replace") as file:
            for line in file:
                if "is now a synchronous standby" in line:
                    text = line[:23] + "+00:00"
                    joined = datetime.datetime.fromisoformat(text).timestamp() - since
                    if joined > 0:
                        return joined
        return None

    def server(self):
        """Ids of the server's processes, the postmaster first."""
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as file:
                pid = int(file.readline())
            # The number may be another process's by now.
            with open(f"/proc/{pid}/cmdline") as file:
                if self.data not in file.read():
                    return []
        except (OSError, ValueError):
            return []
        return [pid, *children_of(pid)]

    def strike(self, fault):
        patroni = [] if fault == "crash" else [self.process.pid]
        server = self.server()
        # Stopped first, the postmaster starts nothing while its children are collected.
        send_signal([*patroni, *server[:1]], signal.SIGSTOP)
        server = self.server()
        send_signal([*patroni, *server], signal.SIGSTOP if fault == "freeze" else signal.SIGKILL)
        self.struck = [*patroni, *server]

    def come_back(self, fault):
        if fault == "machine":
            self.process.wait()
            self.start()
        elif fault == "freeze":
            send_signal(reversed(self.struck), signal.SIGCONT)

    def end(self):
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        # An immediate shutdown: no checkpoint, and shared memory is released.
        server = self.server()
        send_signal(server, signal.SIGCONT)
        send_signal(server[:1], signal.SIGQUIT)
        end = time.monotonic() + 10
        while self.server() and time.monotonic() < end:
            time.sleep(0.05)
        send_signal(self.server(), signal.SIGKILL)


class Cluster:
    """etcd, three members and, if asked for, HAProxy."""

    def __init__(self, host, arguments):
        etcd_port, peer_port, self.proxy_port, *ports = free_ports(9)
        etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        host.start("etcd", [
            "etcd", "--data-dir", host.folder("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            *(["--enable-v2"] if arguments.etcd == "etcd" else []),
        ], as_server=True)
        until("etcd", lambda: request(etcd_port, "GET", "/health")[0] == 200)
        self.bin_dir = server_programs()
        self.passwords = {name: secrets.token_hex(8) for name in ("postgres", "replicator", "tollgate")}
        self.members = [
            Member(host, f"pg{number + 1}", ports[2 * number:2 * number + 2], etcd_port, self.passwords, self.bin_dir,
                   arguments)
            for number in range(3)
        ]
        self.synchronous = not arguments.asynchronous
        for member in self.members:
            member.start()
        until("three members and a synchronous standby", self.healthy)
        self.sql(f"create role tollgate login password '{self.passwords['tollgate']}'")
        self.sql("create database tollgate owner tollgate")
        self.url = self.hosts_url("tollgate", "tollgate")
        if arguments.via == "random":
            self.url += "&load_balance_hosts=random"
        elif arguments.via == "haproxy":
            self.start_proxy(host)
            # HAProxy takes every member for the primary until two checks of it have failed.
            time.sleep(4)
            self.url = self.hosts_url("tollgate", "tollgate", [self.proxy_port])

    def hosts_url(self, user, database, ports=None):
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports or [member.port for member in self.members])
        return f"postgres://{user}:{self.passwords[user]}@{hosts}/{database}?target_session_attrs=read-write"

    def sql(self, statement):
        command = [os.path.join(self.bin_dir, "psql"), "-qAtX", "-c", statement, self.hosts_url("postgres", "postgres")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def start_proxy(self, host):
        servers = "".join(
            f"  server {member.name} 127.0.0.1:{member.port} check port {member.rest_port}\n" for member in self.members)
        path = os.path.join(host.work, "haproxy.cfg")
        with open(path, "w") as file:
            file.write(
                "defaults\n  mode tcp\n  timeout connect 2s\n  timeout client 1h\n  timeout server 1h\n"
                f"listen primary\n  bind 127.0.0.1:{self.proxy_port}\n  option httpchk OPTIONS /primary\n"
                "  http-check expect status 200\n  timeout check 1s\n"
                "  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n" + servers)
        host.start("haproxy", [shutil.which("haproxy") or "/usr/sbin/haproxy", "-db", "-f", path])

    def leader(self):
        return next((member for member in self.members if member.leads()), None)

    def healthy(self):
        """All members run on one timeline, one leads, and one is synchronous."""
        if not (leader := self.leader()):
            return False
        status, body = request(leader.rest_port, "GET", "/cluster")
        members = json.loads(body)["members"] if status == 200 else []
        roles = collections.Counter(member["role"] for member in members)
        return (
            len(members) == len(self.members)
            and all(member["state"] in ("running", "streaming") for member in members)
            and len({member.get("timeline") for member in members}) == 1
            and roles["leader"] == 1
            and (roles["sync_standby"] == 1 or not self.synchronous))


def safe_etcd_section():
    """The section of Patroni's settings that names etcd. Before 3.0.3, `etcd3` let a primary that had been frozen take
    the leader key back from its successor, without the successor's commits; `etcd` (API version 2) never did."""
    try:
        answer = subprocess.run(["patroni", "--version"], check=True, capture_output=True, text=True).stdout
    except OSError:
        die("Patroni is missing: scripts/setup patroni")
    version = tuple(int(number) for number in re.findall(r"\d+", answer)[:3])
    return "etcd3" if version >= (3, 0, 3) else "etcd"


def server_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(re.sub(r"\D", "", path) or 0))
    if not found:
        die("PostgreSQL's server programs are missing: scripts/setup postgres")
    return found[-1]
