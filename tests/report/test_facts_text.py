from cpudeploy.report.facts_text import facts_data, render_facts
from cpudeploy.types import facts as f
from cpudeploy.types.base import Unknown

from .samples import GIB, HOSTILE, container, sample_facts

WHY = Unknown(unknown="permission denied")


def text(facts: f.Facts, *, verbose: bool = False, width: int = 160) -> str:
    return render_facts(facts, colour=False, width=width, verbose=verbose)


def test_a_host_is_told_with_what_limits_it() -> None:
    rendered = text(sample_facts())
    for told in (
        "Debian GNU/Linux 12 (bookworm) · amd64 · kernel 6.1.0-28-amd64",
        "AMD EPYC 9354 · AVX AVX2",
        "2 cores, 4 threads · 4 of the machine's 8 threads may be used (affinity or cpuset)",
        "a quota allows 1.5 CPUs' worth of time",
        "6 GiB free of 8 GiB · a control group allows 8 GiB of 16 GiB · no swap",
        "Docker 20.10.24",
        "rag_minicpm5-1b_0 · of rag, release 0007-1a2b3c4d · running",
        "postgres · foreign · running",
        "1 file, 2.2 GB · 1 download begun, 500 MB so far",
    ):
        assert told in rendered


def test_nothing_is_said_of_limits_that_are_not_there() -> None:
    cpu = f.Cpu(
        model="x",
        flags=("avx512f", "amx_tile"),
        online=2,
        sockets=1,
        usable=(0, 1),
        cores=(f.Core(cpus=(0, 1), socket=0, node=0),),
        quota=None,
    )
    memory = f.Memory(total=GIB, available=GIB, machine=GIB, limit=None, swap=GIB, nodes=())
    rendered = text(sample_facts(cpu=cpu, memory=memory))
    assert "AVX-512F AMX" in rendered
    assert "1 core, 2 threads\n" in rendered
    assert "1 GiB free of 1 GiB · swap 1 GiB\n" in rendered


def test_what_is_unknown_is_told_with_why() -> None:
    facts = sample_facts(
        os=f.Os(id=WHY, version=WHY, codename="", name="?", kernel=WHY, arch=WHY, page_size=WHY),
        cpu=f.Cpu(model=WHY, flags=WHY, online=WHY, sockets=WHY, usable=WHY, cores=WHY, quota=WHY),
        memory=f.Memory(total=WHY, available=WHY, machine=WHY, limit=WHY, swap=WHY, nodes=WHY),
        ports=WHY,
    )
    rendered = text(facts, verbose=True)
    for row in ("os", "cpu", "cores", "memory", "listening"):
        line = next(line for line in rendered.splitlines() if line.startswith(f"  {row} "))
        assert "unknown (permission denied)" in line
    assert "/data  unknown (df: permission denied)" in rendered


def test_an_engine_that_will_not_do_is_named() -> None:
    rendered = text(sample_facts(engine=f.Engine(state="foreign", detail="podman's docker command")))
    assert "not Docker: podman's docker command" in rendered
    assert "engine      none\n" in text(sample_facts(engine=f.Engine(state="absent")))


def test_verbose_adds_flags_ports_and_addresses() -> None:
    rendered = text(sample_facts(), verbose=True)
    assert "fpu sse4_2 avx avx2" in rendered
    assert "0.0.0.0:22" in rendered
    assert "10.20.2.0/24" in rendered


def test_data_never_holds_marks_of_secrets() -> None:
    facts = sample_facts()
    data = facts_data(facts)
    assert data["releases"] == {"rag": {"0007": {"id": "0007"}}}
    assert "scrypt-of-the-key" not in str(data)
    assert facts.releases["rag"]["0007"]["secret_marks"], "the facts themselves stay whole"


def test_names_of_foreign_containers_are_harmless() -> None:
    rendered = text(sample_facts(containers={HOSTILE: container(image=HOSTILE, status=HOSTILE)}))
    assert not set(rendered) & set("\x1b\x07\x9b\u202e\r")


def test_narrow_terminals_get_all_of_it() -> None:
    assert text(sample_facts(), width=40).split() == text(sample_facts()).split()
