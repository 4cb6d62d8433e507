from __future__ import annotations

from collections.abc import Iterable

import pytest

from cpudeploy.errors import HubError
from cpudeploy.resolve.selection import Listed, Selection, quant_of, safe_name, select

QWEN = (
    "README.md",
    "Qwen3-4B-BF16.gguf",
    "Qwen3-4B-F16.gguf",
    "Qwen3-4B-IQ4_XS.gguf",
    "Qwen3-4B-Q4_K_M.gguf",
    "Qwen3-4B-Q4_0.gguf",
    "mmproj-Qwen3-4B-F16.gguf",
)
SHARDS = tuple(f"Q8_0/big-Q8_0-0000{number}-of-00003.gguf" for number in (1, 2, 3))


def choose(names: Iterable[str], quant: str | None = None, *globs: str, form: str = "gguf") -> Selection:
    listed = [Listed(name, 1_500_000) for name in names]
    return select(listed, quant=quant, globs=globs, form=form, where="hub")  # type: ignore[arg-type]


def chosen(names: Iterable[str], quant: str | None = None, *globs: str) -> list[str]:
    return [file.path for file in choose(names, quant, *globs).files]


@pytest.mark.parametrize(
    ("quant", "file"),
    [
        ("Q4_K_M", "Qwen3-4B-Q4_K_M.gguf"),
        ("q4_k_m", "Qwen3-4B-Q4_K_M.gguf"),
        ("F16", "Qwen3-4B-F16.gguf"),
        ("BF16", "Qwen3-4B-BF16.gguf"),
        ("IQ4_XS", "Qwen3-4B-IQ4_XS.gguf"),
    ],
)
def test_a_quantisation_picks_its_one_file(quant: str, file: str) -> None:
    assert chosen(QWEN, quant) == [file]
    assert choose(QWEN, quant).entry == file


def test_where_a_quantisation_fits_two_files_one_can_be_named() -> None:
    with pytest.raises(HubError, match="several models fit") as error:
        chosen(("x-Q4_0.gguf", "x-Q4_0-mtp.gguf"), "Q4_0")
    assert error.value.do == 'name one beside the repository: `files: ["x-Q4_0-mtp.gguf"]`'
    assert chosen(("x-Q4_0.gguf", "x-Q4_0-mtp.gguf"), "Q4_0", "x-Q4_0-mtp.gguf") == ["x-Q4_0-mtp.gguf"]


@pytest.mark.parametrize("quant", ["Q4_K", "Q4", "4_XS", "Q4.K.M", "16"])
def test_part_of_a_quantisations_name_is_not_it(quant: str) -> None:
    with pytest.raises(HubError, match=f"no file of quant {quant}") as error:
        choose(QWEN, quant)
    assert "Qwen3-4B-Q4_K_M.gguf (1.5 MB)" in error.value.what
    assert "mmproj" not in error.value.what


def test_what_is_excluded_is_as_if_it_were_not_there() -> None:
    def left(exclude: tuple[str, ...], quant: str | None = None) -> list[str]:
        listed = [Listed(name, 1) for name in ("x-Q4_0.gguf", "x-Q4_0-mtp.gguf", "mtp/y.gguf")]
        found = select(listed, quant=quant, globs=(), form="gguf", where="hub", exclude=exclude)
        return [file.path for file in found.files]

    assert left(("*-mtp.gguf",), "Q4_0") == ["x-Q4_0.gguf"]
    assert left(("x-*",)) == ["mtp/y.gguf"]
    with pytest.raises(HubError, match="several models"):
        left(("mtp/*",))
    with pytest.raises(HubError, match="no .gguf file"):
        left(("*",))


def test_shards_are_taken_together_and_the_first_is_the_entry() -> None:
    found = choose((*QWEN, *SHARDS), "Q8_0")
    assert tuple(file.path for file in found.files) == SHARDS
    assert found.entry == SHARDS[0]


def test_a_missing_shard_is_named() -> None:
    with pytest.raises(HubError, match="shards 2 of 3 are missing"):
        choose((SHARDS[0], SHARDS[2]), "Q8_0")


def test_without_selectors_the_only_model_is_taken() -> None:
    assert chosen(["README.md", "a.gguf", "mmproj-a.gguf"]) == ["a.gguf"]
    assert chosen(SHARDS) == list(SHARDS)


def test_without_selectors_several_models_are_listed_with_sizes() -> None:
    with pytest.raises(HubError, match=r"several models fit: .*Qwen3-4B-Q4_0.gguf \(1.5 MB\)") as error:
        choose(QWEN)
    assert "quant" in error.value.do


def test_no_model_lists_what_there_is() -> None:
    with pytest.raises(HubError, match=r"there is README\.md"):
        choose(["README.md"])
    with pytest.raises(HubError, match=r"no \.gguf file at all"):
        choose(["README.md"], "Q4_0")


def test_globs_choose_and_bring_what_stands_beside_the_model() -> None:
    found = choose(QWEN, None, "*Q4_0.gguf", "mmproj-*")
    assert [file.path for file in found.files] == ["Qwen3-4B-Q4_0.gguf", "mmproj-Qwen3-4B-F16.gguf"]
    assert found.entry == "Qwen3-4B-Q4_0.gguf"


def test_a_glob_without_a_match_names_the_nearest() -> None:
    with pytest.raises(
        HubError, match=r"no file matches `Qwen3-4B-Q4_K_S.gguf`; nearest: .*Qwen3-4B-Q4_K_M.gguf"
    ):
        choose(QWEN, None, "Qwen3-4B-Q4_K_S.gguf")


def test_a_quantisation_narrows_what_globs_chose() -> None:
    names = ("old/x-Q4_0.gguf", "new/x-Q4_0.gguf", "new/x-Q8_0.gguf")
    assert chosen(names, "Q4_0", "new/*") == ["new/x-Q4_0.gguf"]


def test_a_safetensors_model_is_its_folder() -> None:
    names = ["README.md", "config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json"]
    found = choose(names, form="safetensors")
    assert [file.path for file in found.files] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert found.entry == ""
    with pytest.raises(HubError, match=r"no \.safetensors"):
        choose(["config.json"], form="safetensors")


@pytest.mark.parametrize(
    ("path", "quant"),
    [
        ("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-270m-q4_k_m.gguf", "Q4_K_M"),
        ("Qwen3-4B-IQ4_XS.gguf", "IQ4_XS"),
        ("Qwen3-4B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("model-BF16-00001-of-00002.gguf", "BF16"),
        ("model-f16.gguf", "F16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Q8_0/big-00001-of-00003.gguf", "Q8_0"),
        ("Qwen3-30B-A3B-Q2_K.gguf", "Q2_K"),
        ("Qwen3-4B.gguf", ""),
        ("Q3E-128K.gguf", ""),
    ],
)
def test_a_files_name_tells_its_quantisation(path: str, quant: str) -> None:
    assert quant_of(path) == quant


def test_other_quantisations_of_the_model_are_told_with_their_sizes() -> None:
    listed = [Listed(name, 1000 + number) for number, name in enumerate((*QWEN, "Qwen3-8B-Q8_0.gguf"))]
    listed += [Listed(f"Q8_0/Qwen3-4B-Q8_0-0000{number}-of-00002.gguf", 4000) for number in (1, 2)]
    found = select(listed, quant="Q4_K_M", globs=(), form="gguf", where="hub")
    assert [(each.quant, each.size) for each in found.variants] == [
        ("BF16", 1001),
        ("F16", 1002),
        ("IQ4_XS", 1003),
        ("Q4_0", 1005),
        ("Q8_0", 8000),
    ]


def with_projector(pattern: str, form: str = "gguf") -> Selection:
    names = ["x-Q4_0.gguf", "mmproj-x-f16.gguf", "deep/x.mmproj-f32.gguf", "x.safetensors"]
    listed = [Listed(name, 1) for name in names]
    return select(listed, quant=None, globs=(), form=form, where="hub", mmproj=pattern)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "projector"),
    [
        ("mmproj-x-f16.gguf", "mmproj-x-f16.gguf"),
        ("*f16*", "mmproj-x-f16.gguf"),
        ("x.mmproj-f32.gguf", "deep/x.mmproj-f32.gguf"),
    ],
)
def test_a_projector_is_chosen_by_its_name(pattern: str, projector: str) -> None:
    found = with_projector(pattern)
    assert (found.entry, found.projector) == ("x-Q4_0.gguf", projector)
    assert {file.path for file in found.files} == {"x-Q4_0.gguf", projector}


def test_no_projector_or_several_are_listed() -> None:
    with pytest.raises(HubError, match=r"several files fit .*x.mmproj-f32.gguf .*mmproj-x-f16.gguf"):
        with_projector("*")
    with pytest.raises(HubError, match=r"no mmproj file matches `y`; there is .*mmproj-x-f16.gguf"):
        with_projector("y")
    with pytest.raises(HubError, match="has its own"):
        with_projector("*f16*", form="safetensors")


def test_long_lists_are_cut() -> None:
    with pytest.raises(HubError, match="and 75 more"):
        choose([f"{number}.gguf" for number in range(100)])


@pytest.mark.parametrize("name", ["a.gguf", "Q4_K_M/a b.gguf", "größe.gguf", "...gguf"])
def test_ordinary_names_are_safe(name: str) -> None:
    assert safe_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", ".", "a\nb", "a\0b", "a\x1b[2J", "a\\b", "x" * 300],
)
def test_names_that_could_leave_their_folder_are_not(name: str) -> None:
    assert not safe_name(name)
