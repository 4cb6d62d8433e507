"""Two models that have files in common, from a Hub to a host's disk: each content once, folders whole."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cpudeploy.execute.fetch import fetch
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.steps.context import HostContext
from cpudeploy.steps.weights import brought_by, weights_changes
from cpudeploy.transport import connect
from cpudeploy.types import operation as op
from cpudeploy.types.deployment import HuggingFace
from tests.factories import deployment, facts, placement, resolved
from tests.resolve.folders import folder
from tests.resolve.hubs import Repo, run_hub
from tests.transport.busybox import HERE

TUNED = folder() | {"sub/deep/vocab.txt": b"a b", "config.json": b'{"model_type": "llama"}'}


def test_what_models_have_in_common_is_fetched_once_and_linked_twice(tmp_path: Path) -> None:
    weights_dir, secrets = tmp_path / "weights", Secrets(tmp_path)
    one = placement("one", source=HuggingFace(repo="org/base"))
    two = placement("two", source=HuggingFace(repo="org/tuned"), port=8101)
    wanted = deployment(one, two)
    host = msgspec.structs.replace(wanted.hosts["one"], weights_dir=str(weights_dir))
    with run_hub({"org/base": Repo(folder()), "org/tuned": Repo(TUNED)}) as hub:
        asking = Asking(hub=Hub(origin=hub.url), secrets=secrets, cache=Cache(tmp_path / "cache"), held={})
        models = {each.model: resolve_weights(each.source, "safetensors", asking) for each in (one, two)}
        given = msgspec.structs.replace(
            resolved(), weights={f"{name}@one": weights for name, weights in models.items()}
        )
        context = HostContext(deployment=wanted, host=host, facts=facts(), resolved=given)
        changes = weights_changes(context, one, models["one"])
        changes += weights_changes(context, two, models["two"], brought_by(changes))
        asked = len(hub.server.requests)
        connection = connect(HERE, secrets)
        for change in changes:
            for operation in change.operations:
                if isinstance(operation, op.Fetch):
                    fetch(connection, operation, secrets, lambda *_: None, lambda _: None)
                else:
                    assert isinstance(operation, op.Script)
                    done = connection.run(operation.text, args=operation.args, deadline_s=30)
                    assert done.rc == 0, done.stderr
        connection.close()
        paths = [request.path for request in hub.server.requests[asked:]]
    assert len([path for path in paths if path.endswith("/model.safetensors")]) == 1
    assert len(paths) == len({*folder().values(), *TUNED.values()})
    trees = {name: weights_dir / "trees" / weights.tree for name, weights in models.items()}
    for name, files in (("one", folder()), ("two", TUNED)):
        there = {
            path.relative_to(trees[name]).as_posix(): path.read_bytes()
            for path in trees[name].rglob("*")
            if path.is_file()
        }
        assert there == files
    shared = [tree / "model.safetensors" for tree in trees.values()]
    assert shared[0].samefile(shared[1])
    assert not (trees["one"] / "config.json").samefile(trees["two"] / "config.json")
