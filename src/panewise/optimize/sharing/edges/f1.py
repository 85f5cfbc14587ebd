"""F1: counts the edges of windows that all report together at some point, from least common multiples of their slides.

The number of multiples of slides s_1 ... s_n within a period L, their least common multiple, by inclusion and
exclusion:

    L * sum over all non-empty groups of slides of (-1) ** (size of the group + 1) / lcm(group)

As printed this sums over 2 ** n groups. Here slides that are multiples of others are left out first. Groups with the
same least common multiple are one term with a coefficient, and terms with the coefficient 0 are dropped. So slides that
are factors of one number have at most as many terms as that number has factors. TERMS_MAX bounds the number of terms in
other cases; twelve slides never exceed it.

Only multiples of slides can be counted, so all classes must have a common point, which is taken as 0. Source: Shein and
Chrysanthis 2020, section 3.1.2, equation 2.
"""

from __future__ import annotations

from math import gcd, lcm

from panewise.optimize.sharing.edges.residue_classes import Classes, Count

TERMS_MAX = 4096


def count(classes: Classes) -> Count:
    """The edges of one period.

    >>> count(((4, 0), (6, 0), (9, 0)))
    Count(edges=14, period=36, bound=0.0)
    """
    if not meet(classes):
        raise ValueError("f1 counts multiples of slides, and these classes have no point in common")
    slides: list[int] = []
    for slide in sorted({slide for slide, _ in classes}):
        if all(slide % divisor for divisor in slides):
            slides.append(slide)
    coefficients: dict[int, int] = {}
    for slide in slides:
        joined = {slide: 1}
        for multiple, coefficient in coefficients.items():
            common = lcm(multiple, slide)
            joined[common] = joined.get(common, 0) - coefficient
        for multiple, coefficient in joined.items():
            total = coefficients.get(multiple, 0) + coefficient
            if total:
                coefficients[multiple] = total
            else:
                coefficients.pop(multiple, None)
        if len(coefficients) > TERMS_MAX:
            raise ValueError(f"f1 sums up to {TERMS_MAX} terms, and these {len(slides)} slides have more")
    period = lcm(*slides)
    return Count(sum(coefficient * (period // multiple) for multiple, coefficient in coefficients.items()), period)


def meet(classes: Classes) -> bool:
    """Whether the classes have a common point: by the Chinese remainder theorem, whether every two have one."""
    if all(phase == 0 for _, phase in classes):
        return True
    return all(
        (phase - other_phase) % gcd(slide, other) == 0
        for place, (slide, phase) in enumerate(classes)
        for other, other_phase in classes[:place]
    )
