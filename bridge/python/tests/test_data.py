"""Which data is a peer's own."""

import support  # noqa: F401  (first: it puts the package on the path)

import unittest

from p2pdiloco.data import PartSampler, Permutation, Place

GOLDEN = [37, 30, 81, 86, 52, 53, 15, 16]  # as in sampler_test.go of bridge/builtin


class Samples(unittest.TestCase):
    def test_ranks_share_every_step(self):
        """The ranks together train on what one process would, step by step."""
        place = Place(part=2, part_steps=3, done=1, seed=5)
        alone = iter(PartSampler(range(48), 8, lambda: place))
        ranks = [iter(PartSampler(range(48), 8, lambda: place, r, 4)) for r in range(4)]
        for _ in range(6):
            want = [next(alone) for _ in range(8)]
            self.assertEqual([next(r) for r in ranks for _ in range(2)], want)
        self.assertEqual(len(PartSampler(range(48), 8, lambda: place, 0, 4)), 12)

    def test_a_batch_that_does_not_divide(self):
        with self.assertRaisesRegex(ValueError, "a multiple of 4 is needed"):
            PartSampler(range(48), 6, Place, 0, 4)

    def test_parts_are_disjoint_and_an_epoch_is_whole(self):
        drawn = []
        for part in range(10):  # of two steps of three samples
            sampler = PartSampler(range(30), 3, lambda: Place(0, 5, 7, part, 2, 0, part))
            drawn += list(sampler)
            self.assertEqual(len(sampler), 6)
        self.assertEqual((sorted(drawn[:30]), sorted(drawn[30:])), ([*range(30)], [*range(30)]))
        self.assertNotEqual(drawn[:30], drawn[30:])  # the next epoch

    def test_the_order_is_the_built_in_trainers(self):
        order = Permutation(100, 3, 5)
        self.assertEqual([order[i] for i in range(8)], GOLDEN)
        self.assertEqual(sorted(order[i] for i in range(100)), [*range(100)])

    def test_the_sampler_goes_on_with_the_round(self):
        place = Place(0, 1, 7, 4, 3, 0, 1)
        sampler = iter(PartSampler(range(1000), 2, lambda: place))
        first = [next(sampler) for _ in range(8)]
        self.assertEqual(first[6:], first[:2])  # a part of three steps begins again
        place = place._replace(done=1, round=2)
        self.assertEqual([next(sampler) for _ in range(4)], first[2:6])
        place = place._replace(part=5, done=0, round=3)
        self.assertFalse(set(first) & {next(sampler) for _ in range(6)})


if __name__ == "__main__":
    unittest.main()
