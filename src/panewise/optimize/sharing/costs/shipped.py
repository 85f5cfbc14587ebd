"""The figures for machines that have not been calibrated, in nanoseconds.

They are the result of `figures_to_json(measure())` on the machine that `calibration.py` names. The names of weights are
those of `weave_costs.WORK`.
"""

from __future__ import annotations

from typing import Any

SHIPPED: dict[str, Any] = {
    "curves": {
        "count": {
            "panes": {
                "single": {"edges": 1.65, "answers": 2.68, "slices": 0.249},
                "several": {"slices": 64.7},
                "each": {"answers": 17.9, "slices": 0.84},
                "call_ns": 4830.0,
            },
            "b_int": {
                "single": {"edges": 130.0, "answers": 311.0, "logarithms": 32.4},
                "several": {"edges": 94.9, "answers": 311.0, "logarithms": 19.1},
                "each": {"edges": 2.48, "answers": 0.413, "logarithms": 0.546},
                "call_ns": 9430.0,
            },
            "flat_fat": {
                "single": {"edges": 3.12, "answers": 6.2, "logarithms": 12.4},
                "several": {"edges": 76.4, "answers": 704.0, "logarithms": 88.5},
                "each": {"edges": 1.65, "logarithms": 0.547},
                "call_ns": 5380.0,
            },
            "flat_fit": {
                "single": {"answers": 27.2, "logarithms": 0.45, "steady": 11.5},
                "several": {"edges": 23.9, "logarithms": 41.6, "steady": 158.0},
                "each": {"edges": 2.03, "answers": 0.671, "steady": 1.63},
                "call_ns": 9300.0,
            },
            "slick_deque_inv": {
                "single": {"edges": 8.11, "answers": 79.2, "moves": 3.37, "near": 19.1, "steady": 3.87},
                "several": {"answers": 53.7, "moves": 13.5, "steady": 102.0},
                "each": {"answers": 2.76, "moves": 2.36, "steady": 2.68},
                "call_ns": 9810.0,
            },
            "r_int": {
                "single": {"edges": 1.23, "answers": 0.959, "logarithms": 0.008, "steady": 1.82},
                "several": {"edges": 5.42, "answers": 9.31, "steady": 15.7},
                "each": {"edges": 0.984, "answers": 0.793, "steady": 1.79},
                "call_ns": 3610.0,
            },
            "l_int": {
                "single": {"edges": 7.05, "answers": 13.6, "classes": 7.92},
                "several": {"answers": 120.0, "classes": 228.0},
                "each": {"edges": 1.18, "classes": 5.56},
                "call_ns": 10300.0,
            },
            "two_stacks": {
                "single": {"edges": 1.04, "answers": 6.07, "moves": 1.07, "steady": 3.38},
                "several": {"edges": 105.0, "answers": 181.0, "moves": 112.0, "steady": 234.0},
                "each": {"edges": 1.62, "answers": 0.597, "moves": 2.11, "steady": 3.67},
                "call_ns": 6130.0,
            },
            "daba": {
                "single": {"answers": 6.87, "moves": 6.58, "steady": 3.55},
                "several": {"edges": 39.9, "answers": 246.0, "moves": 583.0, "steady": 780.0},
                "each": {"edges": 2.4, "moves": 0.93, "steady": 1.43},
                "call_ns": 6040.0,
            },
            "subtract_on_evict": {
                "single": {"edges": 1.89, "answers": 85.8, "moves": 2.69, "near": 11.6, "steady": 2.25},
                "several": {"answers": 68.8, "moves": 12.3, "steady": 94.0},
                "each": {"answers": 0.072, "moves": 2.49, "steady": 2.72},
                "call_ns": 5670.0,
            },
        },
        "sum": {
            "panes": {
                "single": {"edges": 1.81, "answers": 3.38, "slices": 0.45},
                "several": {"slices": 66.7},
                "each": {"edges": 1.12, "answers": 0.301, "slices": 1.49},
                "call_ns": 5310.0,
            },
            "b_int": {
                "single": {"edges": 112.0, "answers": 311.0, "logarithms": 31.5},
                "several": {"edges": 90.1, "answers": 315.0, "logarithms": 16.5},
                "each": {"edges": 4.57, "answers": 2.23, "logarithms": 1.09},
                "call_ns": 9370.0,
            },
            "flat_fat": {
                "single": {"edges": 4.03, "answers": 4.77, "logarithms": 13.0},
                "several": {"edges": 79.5, "answers": 630.0, "logarithms": 87.2},
                "each": {"edges": 3.73, "logarithms": 1.28},
                "call_ns": 5880.0,
            },
            "flat_fit": {
                "single": {"answers": 31.2, "steady": 11.1},
                "several": {"edges": 37.0, "answers": 200.0, "logarithms": 2.22, "steady": 163.0},
                "each": {"edges": 3.3, "answers": 2.97, "logarithms": 0.3, "steady": 4.45},
                "call_ns": 8270.0,
            },
            "slick_deque_inv": {
                "single": {"edges": 3.08, "answers": 82.9, "moves": 8.51, "near": 8.9, "steady": 3.98},
                "several": {"answers": 84.9, "moves": 13.8, "steady": 100.0},
                "each": {"moves": 5.17, "steady": 5.71},
                "call_ns": 9870.0,
            },
            "r_int": {
                "single": {"edges": 1.75, "answers": 1.06, "logarithms": 0.091, "steady": 2.8},
                "several": {"edges": 8.49, "answers": 9.97, "steady": 19.1},
                "each": {"edges": 1.96, "answers": 1.62, "steady": 3.46},
                "call_ns": 3580.0,
            },
            "l_int": {
                "single": {"edges": 2.62, "answers": 15.7, "classes": 11.2},
                "several": {"edges": 0.14, "answers": 94.1, "classes": 225.0},
                "each": {"edges": 0.683, "answers": 3.53, "classes": 10.1},
                "call_ns": 10400.0,
            },
            "two_stacks": {
                "single": {"edges": 0.672, "answers": 7.15, "moves": 1.71, "steady": 5.23},
                "several": {"edges": 97.2, "answers": 175.0, "moves": 114.0, "steady": 228.0},
                "each": {"edges": 3.97, "answers": 4.26, "moves": 3.93, "steady": 7.95},
                "call_ns": 6050.0,
            },
            "daba": {
                "single": {"answers": 8.05, "moves": 6.53, "steady": 5.66},
                "several": {"edges": 27.3, "answers": 234.0, "moves": 464.0, "steady": 578.0},
                "each": {"edges": 0.722, "moves": 6.58, "steady": 9.25},
                "call_ns": 6080.0,
            },
            "subtract_on_evict": {
                "single": {"edges": 1.45, "answers": 84.9, "moves": 8.12, "near": 18.3, "steady": 3.5},
                "several": {"answers": 74.6, "moves": 9.35, "steady": 89.6},
                "each": {"moves": 5.76, "steady": 5.99},
                "call_ns": 5740.0,
            },
        },
        "max": {
            "panes": {
                "single": {"slices": 1.21},
                "several": {"answers": 75.3, "slices": 65.6},
                "each": {"slices": 0.812},
                "call_ns": 5040.0,
            },
            "b_int": {
                "single": {"edges": 104.0, "answers": 308.0, "logarithms": 28.0},
                "several": {"edges": 97.4, "answers": 313.0, "logarithms": 15.2},
                "each": {"edges": 2.09, "answers": 0.713, "logarithms": 0.8},
                "call_ns": 9300.0,
            },
            "flat_fat": {
                "single": {"edges": 3.65, "answers": 0.432, "logarithms": 13.8},
                "several": {"edges": 81.6, "answers": 560.0, "logarithms": 98.6},
                "each": {"edges": 1.67, "answers": 4.0},
                "call_ns": 5410.0,
            },
            "flat_fit": {
                "single": {"answers": 28.0, "steady": 10.5},
                "several": {"edges": 58.5, "answers": 127.0, "logarithms": 6.33, "steady": 122.0},
                "each": {"edges": 0.94, "answers": 1.06, "logarithms": 0.271, "steady": 2.23},
                "call_ns": 7990.0,
            },
            "slick_deque": {
                "single": {"edges": 7.38, "answers": 8.6, "steady": 8.35},
                "several": {"steady": 4.73},
                "each": {"edges": 7.59, "answers": 15.4, "moves": 0.226, "steady": 29.8},
                "call_ns": 6520.0,
            },
            "l_int": {
                "single": {"edges": 3.7, "answers": 10.4, "classes": 8.88},
                "several": {"edges": 8.18, "answers": 92.3, "classes": 224.0},
                "each": {"answers": 1.58, "classes": 5.49},
                "call_ns": 9770.0,
            },
            "two_stacks": {
                "single": {"edges": 2.62, "answers": 9.51, "moves": 2.86, "steady": 6.53},
                "several": {"edges": 102.0, "answers": 165.0, "moves": 114.0, "steady": 233.0},
                "each": {"edges": 1.57, "answers": 3.78, "moves": 1.8, "steady": 3.73},
                "call_ns": 6080.0,
            },
            "daba": {
                "single": {"answers": 8.98, "moves": 5.9, "steady": 6.38},
                "several": {"edges": 28.1, "answers": 179.0, "moves": 475.0, "steady": 580.0},
                "each": {"edges": 0.297, "answers": 2.71, "moves": 2.71, "steady": 4.29},
                "call_ns": 6000.0,
            },
        },
    },
    "fold_ns": {"count": 2.42, "sum": 2.83, "max": 3.78},
    "intake_ns": {"count": 9.4, "sum": 13.2, "max": 8.37},
    "slot_ns": 2.09,
    "report_ns": 115.0,
    "result_ns": 3.0,
}
