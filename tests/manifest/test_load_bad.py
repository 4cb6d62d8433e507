"""Manifests that are wrong: each is refused at the place of its one fault, in words that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import CERTIFICATE, GOOD, Failer, Loader, changed

# (what is changed in the good manifest, by what, line:column, words that must be said)
ONE_FAULT = [
    # keys
    (
        "    port: 8100",
        "    prot: 8100\n    port: 8100",
        "11:5",
        "unknown key `prot` in `models.m` did you mean `port`",
    ),
    ("name: rag", "name: rag\nmodles: {}", "3:1", "unknown key `modles` did you mean `models`"),
    (
        "    port: 8100",
        "    contxt: 5\n    port: 8100",
        "11:5",
        "unknown key `contxt` did you mean `context`",
    ),
    ("name: rag", "name: rag\ndefaults: {port: 1}", "3:12", "unknown key `port` in `defaults`"),
    ("    port: 8100", "    port: 8100\n    port: 8101", "12:5", "`port` is here twice, first in line 11"),
    ("    port: 8100", "    <<: {port: 8100}\n    port: 8100", "11:5", "merge keys"),
    ("name: rag", "name: rag\n? [a]\n: b", "3:3", "a key must be plain text"),
    ("name: rag", "name: rag\n~: b", "3:1", "a key without a name"),
    ("version: 1\n", "", "1:1", "the file lacks `version`"),
    ("name: rag\n", "", "1:1", "the file lacks `name`"),
    ("    on: [a]\n", "", "8:3", "`models.m` lacks `on`"),
    ("    port: 8100\n", "", "11:10", "model `m` on host `a` has no `port`"),
    ("    source: {path: /w/m.gguf}\n", "", "11:10", "has no `source`"),
    ("    backend: llama\n", "", "11:10", "has no `backend`"),
    # types: YAML 1.2 core, nothing converted
    ("port: 8100", "port: 010", "11:11", "leading zero"),
    ("port: 8100", "port: '8100'", "11:11", "`models.m.port` must be a port, 1 to 65535, not `8100`"),
    ("port: 8100", "port: 8100.0", "11:11", "`models.m.port` must be a port"),
    ("port: 8100", "port: 2001-01-01", "11:11", "not `2001-01-01`"),
    ("port: 8100", "port: 1:30", "11:11", "not `1:30`"),
    ("port: 8100", "port: 8_100", "11:11", "not `8_100`"),
    ("port: 8100", "port: yes", "11:11", "not `yes`"),
    ("port: 8100", "port: true", "11:11", "not `true`"),
    ("port: 8100", "port:", "11:10", "`models.m.port` has no value"),
    ("port: 8100", "port: 0", "11:11", "1 to 65535, not `0`"),
    ("port: 8100", "port: 65536", "11:11", "1 to 65535, not `65536`"),
    ("port: 8100", "port: [8100]", "11:5", "not a list"),
    ("port: 8100", f"port: {'9' * 5000}", "11:11", "too large"),
    ("port: 8100", "port: .inf", "11:11", "infinity"),
    ("port: 8100", "port: 1e999", "11:11", "too large"),
    ("port: 8100", "port: !!int 8100", "11:11", "the tag"),
    ("port: 8100", "port: !<tag:yaml.org,2002:python/name:os.system> x", "11:11", "the tag"),
    ("version: 1", "version: 2", "1:10", "must be 1, the manifest version"),
    ("version: 1", "version: true", "1:10", "must be 1, the manifest version"),
    ("  a: {address: 10.0.0.1}", "  a:", "4:5", "`hosts.a` has no value ({} for none)"),
    ("  a: {address: 10.0.0.1}", "  a: {retired: yes}", "4:16", "must be true or false, not `yes`"),
    ("    on: [a]", "    on: a", "12:9", "`models.m.on` must be a list of hosts"),
    ("    on: [a]", "    on: []", "12:5", "`models.m.on` is empty"),
    (
        "    on: [a]",
        "    on: [a]\n    args: [true]",
        "13:12",
        "text or a whole number, not true or false in quotes",
    ),
    ("    on: [a]", "    on: [a]\n    args: [1.10]", "13:12", "text or a whole number in quotes"),
    ("    on: [a]", "    on: [a]\n    env: {A: no, B: false}", "13:21", "text or a whole number in quotes"),
    ("    on: [a]", "    on: [a]\n    env: {A-B: x}", "13:11", "`A-B` must be a variable's name"),
    # names
    ("name: rag", "name: Rag", "2:7", "lower-case letters not `Rag`"),
    ("name: rag", f"name: {'a' * 41}", "2:7", "at most 40"),
    ("name: rag", 'name: "rag\\n"', "2:7", "lower-case letters"),
    ("name: rag", 'name: "r\\0g"', "2:7", "control character (U+0000)"),
    ("name: rag", "name: ../x", "2:7", "not `../x`"),
    ("  a: {", "  -rf: {}\n  a: {", "4:3", "`-rf` must be a name"),
    ("  a: {", "  a;b: {}\n  a: {", "4:3", "`a;b` must be a name"),
    ("  a: {", "  ../x: {}\n  a: {", "4:3", "`../x` must be a name"),
    ("  a: {", "  жук: {}\n  a: {", "4:3", "`жук` must be a name"),
    ("  m:", "  vllm:", "8:3", "VLLM_PORT"),
    ("address: 10.0.0.1", "address: -oProxyCommand=x", "4:16", "a host name or IP address"),
    ("address: 10.0.0.1", "user: -x", "4:13", "a login name"),
    ("address: 10.0.0.1", "dirs: {weights: /data/../etc}", "4:23", "absolute path without `..`"),
    *(
        ("name: rag", f"name: {name}", "2:7", f"can't be called `{name}` choose another")
        for name in ("weights", "lease", "guard", "host", "kept")
    ),
    *(
        ("address: 10.0.0.1", f"dirs: {{weights: {folder}}}", "4:23", words)
        for folder, words in (
            ("/data//models", "shorter name write `/data/models`"),
            ("/data/./models", "shorter name write `/data/models`"),
            ("/data/models/", "shorter name write `/data/models`"),
            ("/", "absolute path"),
            ("/var/lib/cpudeploy", "where state is kept write /var/lib/cpudeploy/weights"),
            ("/var/lib/cpudeploy/rag", "where state is kept"),
            ("/proc/1", "is for `/proc`, not models"),
            ("/etc", "is for `/etc`, not models"),
            ("/var/lib/docker/volumes", "is for `/var/lib/docker`, not models"),
        )
    ),
    *(
        ("port: 8100", f"port: 8100\n    served_name: {name}", "12:18", "without commas, control characters")
        for name in ('"a,b"', '"a\\tb"', '"a\\nb"', '" a"', '"a "', '","')
    ),
    # references
    ("backend: llama", "backend: lama", "10:14", "there is no backend `lama` did you mean `llama`"),
    ("on: [a]", "on: [b1]", "12:10", "there is no host `b1` known: `a`"),
    ("on: [a]", "on: [a, {host: a, port: 8101}]", "12:20", "on host `a` twice"),
    ("on: [a]", "on: [{port: 8101}]", "12:10", "either `host` or `hosts`"),
    ("on: [a]", "on: [{host: a, hosts: [a]}]", "12:10", "either `host` or `hosts`"),
    ("playbook: engine", "playbook: engin", "6:21", "there is no playbook `engin` did you mean `engine`"),
    ("playbook: engine", "playbook: base", "6:21", "`base` is not for this it is for hosts"),
    ("{address: 10.0.0.1}", "{playbooks: [engine]}", "4:19", "`engine` is not for this it is for models"),
    ("{address: 10.0.0.1}", "{retired: true}", "12:10", "host `a` is retired"),
    ('b9000"}', 'b9000", params: {kvv: a}}', "6:66", "no parameter `kvv` did you mean `kv`"),
    (
        'b9000"}',
        'b9000", params: {cache: a}}',
        "6:73",
        "parameter `cache` is of another type its default is `0`",
    ),
    ('b9000"}', 'b9000", version: 0.21}', "6:66", "the engine's version as text in quotes"),
    # images
    ("x/y:b9000", "x/y", "6:36", "without a tag pin a tag"),
    ("ghcr.io/x/y", "https://ghcr.io/x/y", "6:36", "has no scheme"),
    ("ghcr.io/x/y:", "ghcr.io/x/y z:", "6:36", "not an image reference"),
    ("ghcr.io/x/y:", "-x/y:", "6:36", "not an image reference"),
    ("ghcr.io/x/y", "ghcr.io/X/y", "6:36", "lower case"),
    # sources
    ("{path: /w/m.gguf}", "{path: w/m.gguf}", "9:20", "an absolute path"),
    ("{path: /w/m.gguf}", "{path: /w/m/}", "9:20", "has a shorter name write `/w/m`"),
    ("{path: /w/m.gguf}", "{path: /m.gguf}", "9:20", "would see all of `/`"),
    ("{path: /w/m.gguf}", "{path: /etc/llm/m.gguf}", "9:20", "would see all of `/etc/llm`"),
    ("{path: /w/m.gguf}", "{path: /var/lib/cpudeploy/rag/m.gguf}", "9:20", "would see all of"),
    ("{path: /w/m.gguf}", "{path: /w/m, url: 'https://x/y'}", "9:5", "has `url` and `path` give one of"),
    ("{path: /w/m.gguf}", "{quant: Q4_0}", "9:5", "says not where from"),
    ("{path: /w/m.gguf}", "{path: /w/m, quant: Q4_0}", "9:33", "`quant` means nothing beside `path`"),
    ("{path: /w/m.gguf}", "{url: 'https://x/y'}", "9:5", "needs `sha256`"),
    ("{path: /w/m.gguf}", "{url: 'ftp://x/y', sha256: '" + "0" * 64 + "'}", "9:19", "http:// or https://"),
    ("{path: /w/m.gguf}", "{url: 'https://x/y', sha256: abc}", "9:42", "64 lower-case hex digits"),
    ("{path: /w/m.gguf}", "{huggingface: Qwen3}", "9:27", "a repository such as Qwen/Qwen3-4B-GGUF"),
    ("{path: /w/m.gguf}", "{huggingface: ../x}", "9:27", "a repository such as"),
    ("{path: /w/m.gguf}", "{huggingface: a/b, files: ['/etc/passwd']}", "9:40", "inside the repository"),
    # amounts and places
    ("port: 8100", "port: 8100\n    memory: 16", "12:13", "only 16 bytes; add a unit"),
    ("port: 8100", "port: 8100\n    memory: 8XB", "12:13", "not a size such as 8GiB"),
    ("port: 8100", "port: 8100\n    memory: 9999999TiB", "12:13", "out of any machine's range"),
    ("port: 8100", "port: 8100\n    cpus: 0", "12:11", "`models.m.cpus` must be auto, a number of cores"),
    ("port: 8100", "port: 8100\n    cpus: '8'", "12:11", "write 8 without quotes for a count"),
    ("port: 8100", "port: 8100\n    cpus: 7-0", "12:11", "backward range"),
    ("port: 8100", "port: 8100\n    cpus: 0-3,2", "12:11", "names a CPU twice"),
    ("port: 8100", "port: 8100\n    cpus: numa:x", "12:11", "`cpus` is"),
    ("port: 8100", "port: 8100\n    context: 0", "12:14", "at least 1"),
    ("port: 8100", "port: 8100\n    listen: 0.0.0.0", "12:13", "no `api_key` say `api_key: none` aloud"),
    ("port: 8100", "port: 8100\n    listen: 10.0.0.0/8", "12:13", "no `api_key`"),
    ("port: 8100", "port: 8100\n    listen: localhost", "12:13", "write 127.0.0.1"),
    ("port: 8100", "port: 8100\n    listen: 300.1.1.1", "12:13", "not an address a network such as"),
    ("port: 8100", "port: 8100\n    listen: lo", "12:13", "write 127.0.0.1"),
    ("port: 8100", "port: 8100\n    listen: eth0", "12:13", "no `api_key`"),
    ("port: 8100", "port: 8100\n    listen: 1eth_0", "12:13", "not an address an interface such as eth0"),
    ("port: 8100", "port: 8100\n    listen: 127.0.0.0/8", "12:13", "every loopback address write 127.0.0.1"),
    ("port: 8100", "port: 8100\n    listen: '::1/128'", "12:13", "every loopback address write ::1"),
    ("port: 8100", "port: 8100\n    listen: 10.0.0.0/99", "12:13", "no network"),
    ("port: 8100", "port: 8100\n    listen: 10.20.0.1/16", "12:13", "the network is 10.20.0.0/16"),
    (
        "on: [a]",
        "on: [a]\n  n: {source: {path: /w/n}, backend: llama, port: 8100, on: [a]}",
        "13:51",
        "`m` and `n` both",
    ),
    (
        "on: [a]",
        "on: [a]\n  n: {source: {path: /w/n}, backend: llama, port: 8100, listen: '0.0.0.0', api_key: none, on: [a]}",
        "13:51",
        "`m` and `n` both",
    ),
    (
        "on: [a]",
        "on: [a]\n    listen: ::1\n  n: {source: {path: /w/n}, backend: llama, port: 8100, listen: '0:0:0:0:0:0:0:1', on: [a]}",
        "14:51",
        "`m` and `n` both",
    ),
    ("  a: {", "  b: {address: 10.0.0.1}\n  a: {", "5:3", "`b` and `a` are the same machine"),
    ("address: 10.0.0.1", "port: 22, ssh: {port: 23}", "4:13", "`port` twice"),
    ("address: 10.0.0.1", "connection: local, port: 22", "4:32", "nothing with `connection: local`"),
    # engine and playbook
    (
        'engine, image: "ghcr.io/x/y:b9000"}',
        'keyless, image: "ghcr.io/x/y:b9000"}\ndefaults: {task: chat, memory: 1GiB}',
        "7:18",
        "has no task `chat` it has `embed`",
    ),
    ("on: [a]", "on: [a]\n    args: [-c, '1']", "13:12", "`-c` is already set set `context` instead"),
    ("on: [a]", "on: [a]\n    args: [--ctx-size=9]", "13:12", "`--ctx-size` is already set"),
    ("on: [a]", "on: [a]\n    args: [--ctx_size=9]", "13:12", "`--ctx-size` is already set"),
    ("on: [a]", "on: [a]\n    args: [--kv=q8]", "13:12", "`--kv` is already set remove it"),
    (
        "on: [a]",
        "on: [a]\n    args: ['{{ modle.name }}']",
        "13:12",
        "unknown name `modle` did you mean `model`",
    ),
    (
        "on: [a]",
        "on: [a]\n    args: ['{{ model.contxt }}']",
        "13:12",
        "`model.contxt` did you mean `context`",
    ),
    ("on: [a]", "on: [a]\n    env: {A: '{{ param.kvv }}'}", "13:14", "`param.kvv` did you mean `kv`"),
    ("on: [a]", "on: [a]\n    env: {A: '{{ model.name'}", "13:14", "not a template"),
    # secrets
    ("on: [a]", "on: [a]\n    api_key: {from_env: A, from_file: b}", "13:5", "too many entries"),
    ("on: [a]", "on: [a]\n    api_key: {from_env: 'A B'}", "13:25", "the name of an environment variable"),
    ("on: [a]", "on: [a]\n    api_key: {from_vault: x}", "13:15", "unknown key `from_vault`"),
    ("on: [a]", "on: [a]\n    api_key: {from_age: ''}", "13:25", "a path on this machine"),
    ("on: [a]", 'on: [a]\n    api_key: {from_command: "pass \'x"}', "13:29", "a command line, or a list"),
    ("on: [a]", "on: [a]\n    api_key: {from_command: ' '}", "13:29", "a command line, or a list"),
    (
        "on: [a]",
        "on: [a]\n    api_key: {from_command: []}",
        "13:15",
        "`models.m.api_key.from_command` is empty",
    ),
    ("on: [a]", "on: [a]\n    api_key: {from_command: [pass, 1]}", "13:36", "a word of the command, as text"),
    # site
    (
        "name: rag",
        "name: rag\nmirrors: {images: [{match: ghcr.io/, try: [x/y]}]}",
        "3:44",
        "must both end in `/`",
    ),
    ("name: rag", "name: rag\nmirrors: {images: [{match: ghcr.io/}]}", "3:20", "lacks `try`"),
    (
        "name: rag",
        "name: rag\nmirrors: {huggingface: hf-mirror.com}",
        "3:24",
        "an http:// or https:// address",
    ),
    ("name: rag", "name: rag\nregistries: {harbor.corp: {username: a}}", "3:14", "lacks `password`"),
    (
        "name: rag",
        "name: rag\nregistries: {h.corp: {ca: no.pem}}",
        "3:27",
        "`no.pem` can't be read: no such file",
    ),
    ("name: rag", "name: rag\nregistries: {'https://h': {}}", "3:14", "a registry host or host/project"),
    (
        "name: rag",
        "name: rag\nregistries: {h.corp: {ca: ~nouser/x.pem}}",
        "3:27",
        "no home folder `~nouser` without `~`",
    ),
    ("{path: /w/m.gguf}", "{upload: ~nouser/m.gguf}", "9:22", "no home folder `~nouser` without `~`"),
    ("address: 10.0.0.1", "ssh: {config: ~nouser/x}", "4:21", "no home folder `~nouser` without `~`"),
    ("address: 10.0.0.1", "engine: {use: manag}", "4:21", "must be install, existing or manage, not `manag`"),
    ("name: rag", "name: rag\nproxy: {http: proxy}", "3:15", "an http:// or https:// address"),
    ("name: rag", "name: rag\nproxy: {http: 'http://me:x@p:1'}", "3:15", "without a login in it, not text"),
    ("name: rag", "name: rag\nproxy: {no_proxy: [a]}", "3:1", "`proxy` has no address"),
    ("name: rag", "name: rag\nproxy: {}", "3:1", "`proxy` has no address"),
    ("name: rag", "name: rag\nnetworks: {pool: 10.1.0.0/26}", "3:18", "too small for two networks a /25"),
    ("name: rag", "name: rag\nnetworks: {pool: 10.1.2.3/16}", "3:18", "the network is 10.1.0.0/16"),
    ("name: rag", "name: rag\nnetworks: {pool: 10.1.2.300/16}", "3:18", "is no network"),
    ("name: rag", "name: rag\nnetworks: {pool: 224.0.0.0/8}", "3:18", "not for container networks"),
    ("name: rag", "name: rag\nnetworks: {pool: 240.0.0.0/8}", "3:18", "not for container networks"),
    ("name: rag", "name: rag\nnetworks: {pool: 0.0.0.0/8}", "3:18", "not for container networks"),
    ("name: rag", "name: rag\nnetworks: {pool: 8.8.0.0/16}", "3:18", "`8.8.0.0/16` is of the internet"),
    ("on: [a]", "on: [a]\n    memory: 0", "13:13", "`memory` is nothing auto, or a size"),
    (
        "on: [a]",
        "on: [a]\n    each: numa\n    cpus: 0-7",
        "14:11",
        "`0-7`, and `each: numa` leave `cpus` out",
    ),
    ("on: [a]", "on: [a]\n    each: numa\n    cpus: numa:1", "14:11", "a node of its own"),
    ("name: rag", "name: rag\nnetworks: {pool: 'fd00::/64'}", "3:18", "an IPv4 network of /25 or larger"),
    ("port: 8100", 'port: "8103-8100"', "11:11", "`port` is `8103-8100`: a range goes up"),
    ("port: 8100", 'port: "8100-99999"', "11:11", "from 1 to 65535"),
    ("port: 8100", 'port: "8100:8103"', "11:11", 'or a range such as "8100-8103", not `8100:8103`'),
    ("{path: /w/m.gguf}", "{modelscope: a/b, sha256: '" + "0" * 64 + "'}", "9:39", "`sha256` means nothing"),
    ("{path: /w/m.gguf}", "{upload: m, quant: Q4_0}", "9:32", "`quant` means nothing beside `upload`"),
    ("{path: /w/m.gguf}", "{huggingface: a/b, mmproj: ../m}", "9:40", "inside the repository"),
    (
        "port: 8100\n    on: [a]",
        'port: "8100-8103"\n    each: numa\n    on: [a]\n'
        "  n: {source: {path: /w/n}, backend: llama, port: 8102, on: [a]}",
        "14:51",
        "`m` and `n` both listen on 127.0.0.1:8102",
    ),
    # YAML itself
    ("    port: 8100", "\tport: 8100", "11:1", "a tab indent with spaces"),
    ("name: rag", "name: rag\n---\nname: b", "3:1", "a second document"),
    ("name: rag", "name: [rag", "3:6", "not valid YAML"),
    ("name: rag", "name: *x", "2:7", "no finished value is named `x`"),
    ("name: rag", "name: rag\nmodels2: &x [*x]", "3:14", "no finished value is named `x`"),
    ("name: rag", 'name: "\\UFFFFFFFF"', "2:5", "an escape that is no character"),
    ("name: rag", 'name: "\\uD800"', "2:7", "control character (U+D800)"),
    ("name: rag", "name: r\x00g", "2:8", "a control character"),
]


@pytest.mark.parametrize(
    ("old", "new", "place", "words"), ONE_FAULT, ids=[case[1][:40] for case in ONE_FAULT]
)
def test_one_fault_is_told_where_it_is(
    problems_of: Failer, old: str, new: str, place: str, words: str
) -> None:
    found = problems_of(changed(old, new))
    assert [problem.where for problem in found] == [f"inventory.yaml:{place}"], found
    said = f"{found[0].what} {found[0].do}"
    position = 0
    for word in words.split():
        position = said.find(word, position)
        assert position >= 0, f"{word!r} not said (in this order) by: {said}"


def test_everything_wrong_is_told_at_once_in_file_order(problems_of: Failer) -> None:
    text = (
        changed("name: rag", "name: RAG")
        .replace("port: 8100", "port: 010")
        .replace("[a]", "[b, {host: a, prot: 1}]")
    )
    text = text.replace("b9000", "b9000 x").replace("10.0.0.1", "-x")
    found = problems_of(text)
    assert [problem.where.split(":", 1)[1] for problem in found] == [
        "2:7",
        "4:16",
        "6:36",
        "11:11",
        "12:10",
        "12:23",
    ]


def test_a_fault_of_a_default_is_told_once_however_many_hosts_have_it(problems_of: Failer) -> None:
    text = changed("  a: {", "  b: {}\n  a: {").replace("[a]", "[a, b]")
    found = problems_of("defaults: {memory: 8XB}\n" + text)
    assert [problem.where for problem in found] == ["inventory.yaml:1:20"]


@pytest.mark.parametrize(
    "line", ["api_key: hunter2", "api_key: 0123456", "api_key: [hunter2]", "api_key: {from_env: hunter2 x}"]
)
def test_a_secret_written_into_the_manifest_is_refused_and_never_repeated(
    problems_of: Failer, line: str
) -> None:
    found = problems_of(changed("    port: 8100", f"    port: 8100\n    {line}"))
    assert len(found) == 1
    assert "hunter2" not in str(found)
    assert "123456" not in str(found)


def test_a_password_in_an_address_is_never_repeated(problems_of: Failer) -> None:
    found = problems_of(
        changed("{path: /w/m.gguf}", "{url: 'https://me:hunter2@x/y', sha256: '" + "0" * 64 + "'}")
    )
    assert len(found) == 1
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("address: 10.0.0.1", "address: 'me:hunter2@10.0.0.1'"),
        ("address: 10.0.0.1", "address: 10.0.0.1, listen: 'me:hunter2@10.0.0.1'"),
        ("version: 1", "version: 1\nregistries: {'me:hunter2@r.io': {username: me}}"),
        ("version: 1", "version: 1\nmirrors: {images: [{match: ghcr.io/, try: ['http://me:hunter2@m/']}]}"),
    ],
)
def test_nor_is_one_where_no_password_belongs(problems_of: Failer, old: str, new: str) -> None:
    found = problems_of(changed(old, new))
    assert "me:…@" in str(found)
    assert "hunter2" not in str(found)


def test_long_and_strange_values_are_cut_and_escaped_in_messages(problems_of: Failer) -> None:
    found = problems_of(changed("address: 10.0.0.1", f'address: "\\u202e{"x" * 100_000}"'))
    assert len(found[0].what) < 300
    assert "\u202e" not in found[0].what


def test_a_key_without_a_playbook_that_takes_it_is_refused(problems_of: Failer) -> None:
    text = changed("playbook: engine", "playbook: keyless").replace(
        "    on:", "    task: embed\n    memory: 1GiB\n    on:"
    )
    found = problems_of(text + "    api_key: {from_env: KEY}\n")
    assert [problem.where for problem in found] == ["inventory.yaml:15:5"]
    assert "key as a file" in found[0].what


def test_memory_must_be_given_where_it_cannot_be_worked_out(problems_of: Failer) -> None:
    text = changed("playbook: engine", "playbook: keyless").replace("    on:", "    task: embed\n    on:")
    assert "give `memory`" in problems_of(text)[0].do
    assert "memory model" in problems_of(text + "    memory: auto\n")[0].what


def test_a_certificate_file_must_hold_a_certificate_and_no_key(problems_of: Failer, tmp_path: object) -> None:
    assert hasattr(tmp_path, "joinpath")
    pem = tmp_path.joinpath("ca.pem")
    text = changed("name: rag", "name: rag\nregistries: {h.corp: {ca: ca.pem}}")
    pem.write_text("hello")
    assert "no PEM certificate" in problems_of(text)[0].what
    pem.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n")
    assert "private key" in problems_of(text)[0].what
    pem.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in problems_of(text)[0].what


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        CERTIFICATE[: len(CERTIFICATE) // 2],
        CERTIFICATE + CERTIFICATE[:200],
        CERTIFICATE.replace("M", "é", 1),
    ],
    ids=["begun", "no certificate", "cut off", "the second cut off", "not base64"],
)
def test_a_certificate_that_is_not_whole_is_refused(problems_of: Failer, tmp_path: Path, text: str) -> None:
    (tmp_path / "ca.pem").write_text(text)
    (problem,) = problems_of(changed("name: rag", "name: rag\nregistries: {h.corp: {ca: ca.pem}}"))
    assert problem.where == "inventory.yaml:3:27"
    assert "`ca.pem` holds a certificate that is cut off or damaged" in problem.what


def test_notes_beside_certificates_and_several_of_them_are_fine(load_text: Loader, tmp_path: Path) -> None:
    text = f"Zertifizierungsstelle für Prüfungen\n{CERTIFICATE}\n# the same\n{CERTIFICATE}"
    (tmp_path / "ca.pem").write_text(text.replace("\n", "\r\n"), newline="")
    manifest = load_text(changed("name: rag", "name: rag\nregistries: {h.corp: {ca: ca.pem}}"))
    assert manifest.deployment.registries[0].ca


def test_the_good_manifest_is_good(load_text: object) -> None:
    assert callable(load_text)
    assert load_text(GOOD).deployment.name == "rag"
