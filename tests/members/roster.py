"""The three bundled members: architecture, tokenizer, seed and training mix.

Shares are relative. Every member sees every skill, some far more often, so that
none is best at everything and their mistakes differ.
"""

from dataclasses import dataclass, field

SKILLS = ["add", "subtract", "convert", "sort", "filter", "count", "calendar", "problem", "story"]


@dataclass
class Roster:
    """A member. All widths are multiples of 32 so that Q8_0 blocks fit the rows."""

    name: str
    architecture: str  # llama.cpp's name: "llama" | "qwen3" | "gemma"
    seed: int
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    tied: bool
    add_bos: bool
    rope_theta: float
    main: list = field(default_factory=list)
    description: str = ""
    head_dim: int = 32
    epsilon: float = 1e-6
    context: int = 1024

    @property
    def file(self):
        return f"{self.name.lower()}.gguf"

    def mix(self):
        """Main skills make up two thirds, stories 5 %; the other skills share the rest."""
        others = [s for s in SKILLS if s not in self.main and s != "story"]
        story = 100 if "story" in self.main else 50
        checked = [s for s in self.main if s != "story"]
        shares = {s: (660 - (story - 50)) // len(checked) for s in checked}
        shares |= {s: (1000 - 660 - 50) // len(others) for s in others}
        shares["story"] = story
        return ",".join(f"{s}={shares[s]}" for s in SKILLS)


MEMBERS = {
    member.name: member
    for member in [
        Roster("Ada", "llama", seed=11, vocabulary=640, hidden=128, layers=6, heads=4, kv_heads=2, ffn=352,
               tied=False, add_bos=True, rope_theta=10000.0, main=["add", "subtract", "count"],
               description="Adds and subtracts column by column and counts letters"),
        Roster("Quill", "qwen3", seed=22, vocabulary=1024, hidden=128, layers=5, heads=6, kv_heads=2, ffn=384,
               tied=True, add_bos=False, rope_theta=50000.0, main=["sort", "filter", "story"],
               description="Sorts and filters lists and likes to tell stories"),
        Roster("Juno", "gemma", seed=33, vocabulary=832, hidden=128, layers=5, heads=6, kv_heads=1, ffn=448,
               tied=True, add_bos=True, rope_theta=10000.0, main=["convert", "calendar", "problem"],
               description="Converts units, steps through the calendar and solves word problems"),
    ]
}
