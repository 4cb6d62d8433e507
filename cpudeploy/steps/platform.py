"""Whether an image was built for a host's processor. In: facts and a resolved image. Out: nothing, or
HostError: pulled all the same, its first program would not start (`exec format error`).
"""

from __future__ import annotations

from ..errors import HostError
from ..types.resolved import ResolvedImage
from .context import HostContext


def refuse_wrong_platform(context: HostContext, image: ResolvedImage) -> None:
    """Raises HostError naming what the image offers. Where one side is not known, nothing is said."""
    arch = context.facts.os.arch
    if not image.built_for(arch):
        raise HostError(
            f"the image {image.reference} is not built for linux/{arch}; it offers "
            f"{', '.join(image.platforms)}",
            where=context.host.name,
            do=f"name an image built for linux/{arch} under `backends`, or use a host of those platforms",
        )
