"""What the generated KBs are about: the names of types and predicates, and which rules hold between them.

A theme has ten predicates over four types of entities, A to D. Five of them are stated facts that nothing explains:

    steps of chains   first A → B, second B → C, up A → A, last B → D
    no part of any    plain A → D

and five are heads, which rules conclude from them:

    through     A, C    first then second; and for one entity of C, from one entity of B
    far         A, D    up, then first, then last
    back        A, A    up, the other way round
    mutual      A, A    itself, the other way round
    same        A, D    plain
"""

from dataclasses import dataclass, replace

ROLES = ("first", "second", "through", "mutual", "plain", "same", "up", "back", "last", "far")
FEW = ("first", "second", "through", "mutual", "plain", "same")  # of a theme with few predicates
ENDS = {  # role -> the types that it leads from and to
    "first": ("A", "B"),
    "second": ("B", "C"),
    "through": ("A", "C"),
    "mutual": ("A", "A"),
    "plain": ("A", "D"),
    "same": ("A", "D"),
    "up": ("A", "A"),
    "back": ("A", "A"),
    "last": ("B", "D"),
    "far": ("A", "D"),
}


@dataclass(frozen=True)
class Theme:
    """Names of the types A to D and of the predicates of each role.

    A role in `backwards` is stated the other way round: `wrote(author, paper)` is the step from a paper to its author.
    """

    types: tuple[str, str, str, str]
    predicates: dict[str, str]
    backwards: tuple[str, ...] = ()

    def numbered(self, number: int) -> "Theme":
        """The theme with other predicates over the same types, where one theme is used many times."""
        if not number:
            return self
        return replace(self, predicates={role: f"{name}_{number + 1}" for role, name in self.predicates.items()})

    def only(self, roles: tuple[str, ...]) -> "Theme":
        return replace(self, predicates={role: self.predicates[role] for role in roles})


THEMES = (
    Theme(
        ("drug", "protein", "pathway", "disease"),
        {
            "first": "targets",
            "second": "member_of",
            "through": "acts_on",
            "mutual": "interacts_with",
            "plain": "tested_for",
            "same": "studied_for",
            "up": "derived_from",
            "back": "precursor_of",
            "last": "linked_to",
            "far": "treats",
        },
    ),
    Theme(
        ("person", "company", "city", "country"),
        {
            "first": "works_at",
            "second": "has_office",
            "through": "works_in",
            "mutual": "knows",
            "plain": "travelled_to",
            "same": "visited",
            "up": "reports_to",
            "back": "manages",
            "last": "registers",
            "far": "taxed_in",
        },
        backwards=("second", "last"),
    ),
    Theme(
        ("paper", "author", "institute", "topic"),
        {
            "first": "wrote",
            "second": "employed_by",
            "through": "published_by",
            "mutual": "related_to",
            "plain": "keyword",
            "same": "about",
            "up": "extends",
            "back": "extended_by",
            "last": "expert_in",
            "far": "builds_on",
        },
        backwards=("first",),
    ),
    Theme(
        ("gene", "tissue", "organ", "trait"),
        {
            "first": "expressed_in",
            "second": "contains",
            "through": "active_in",
            "mutual": "coregulated_with",
            "plain": "associated_with",
            "same": "marker_of",
            "up": "regulated_by",
            "back": "regulates",
            "last": "shows",
            "far": "influences",
        },
        backwards=("second", "up"),
    ),
)


def themes(num_predicates: int) -> list[Theme]:
    """Themes with about this many predicates together: whole ones, and for the rest one with few predicates."""
    whole, rest = divmod(num_predicates, len(ROLES))
    chosen = [THEMES[i % len(THEMES)].numbered(i // len(THEMES)) for i in range(whole)]
    if rest >= len(FEW) - 1 or not chosen:
        roles = FEW[: max(rest, 3)]  # the chain is always there
        chosen.append(THEMES[whole % len(THEMES)].numbered(whole // len(THEMES)).only(roles))
    return chosen
