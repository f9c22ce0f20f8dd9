"""Checks what bench/against.py computes and refuses: forged rounds in, ratios, verdicts and exit statuses out.

    bench/run --self-test

It starts no server and takes less than a second, so `bench/run --quick` runs it first.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

import against


def row(cpu, rps=1000.0, foreign=0.0):
    return dict(cpu_us_per_req=cpu, rps=rps, foreign_cores=foreign)


def compared(*pairs, **more):
    """A comparison of rounds that are pairs of CPU per request: before, new."""
    return against.Comparison('send', [dict(before=row(b, **more), new=row(n, **more)) for b, n in pairs])


class Ratios(unittest.TestCase):
    def test_a_ratio_is_formed_inside_each_round(self):
        # The machine becomes three times slower, and the new build costs 10 % more all the time. The medians of all
        # rounds of each build would say the same of a build that costs nothing more but was measured last.
        c = compared((10, 11), (20, 22), (30, 33))
        self.assertAlmostEqual(c.cpu.median, 1.1)
        self.assertAlmostEqual(c.cpu.low, 1.1)
        self.assertAlmostEqual(c.cpu.high, 1.1)

    def test_one_odd_round_moves_the_range_and_not_the_median(self):
        c = compared((10, 10), (10, 10), (10, 20), (10, 10), (10, 10))
        self.assertEqual(c.cpu, (1.0, 1.0, 2.0))

    def test_of_an_even_number_of_rounds_the_median_is_between_the_two_in_the_middle(self):
        self.assertAlmostEqual(compared((10, 10), (10, 11), (10, 13), (10, 20)).cpu.median, 1.2)

    def test_new_is_divided_by_before_and_each_by_the_floor(self):
        rounds = [dict(before=row(10, 400.0), new=row(8, 500.0), floor=row(2, 1000.0))]
        c = against.Comparison('send', rounds, 'floor')
        self.assertEqual((c.cpu.median, c.rate.median), (0.8, 1.25))
        self.assertEqual((c.to_floor['before'].median, c.to_floor['new'].median), (0.4, 0.5))

    def test_a_round_without_one_of_the_builds_does_not_count_and_is_told(self):
        c = against.Comparison('send', [dict(before=row(10), new=row(10)), dict(before=row(10))])
        self.assertEqual(c.cpu, (1.0, 1.0, 1.0))
        self.assertEqual(c.notes(0.25), ['only 1 of 2 rounds'])

    def test_each_build_is_the_first_in_every_other_round(self):
        orders = [against.order(['before', 'new', 'floor'], number) for number in range(4)]
        self.assertEqual(orders[0], ['before', 'new', 'floor'])
        self.assertEqual(orders[1], ['floor', 'new', 'before'])
        self.assertEqual(orders[2:], orders[:2])

    def test_rows_are_selected_by_name_and_absent_ones_left_out(self):
        seen = [{'hub before': 1, 'hub new': 2, 'alone': 3}, {'hub new': 4}]
        chosen = against.select(seen, before='hub before', new='hub new', floor='alone')
        self.assertEqual(chosen, [dict(before=1, new=2, floor=3), dict(new=4)])


class Verdicts(unittest.TestCase):
    def test_at_the_limit_is_within_it_and_a_little_more_is_above(self):
        self.assertIs(compared((100, 103)).is_above(0.03), False)
        self.assertIs(compared((100, 103.1)).is_above(0.03), True)
        self.assertIs(compared((100, 90)).is_above(0.0), False)

    def test_the_median_is_judged_and_not_the_worst_round(self):
        self.assertIs(compared((100, 100), (100, 150), (100, 101)).is_above(0.03), False)

    def test_every_workload_has_a_line_that_says_how_it_stands(self):
        lines = against.verdicts([compared((100, 101)), compared((100, 110)), compared()], 0.03, 0.25)
        self.assertEqual(lines[0], '- send: within the limit, +1.0% CPU per request (+1.0% to +1.0%)')
        self.assertEqual(lines[1], '- send: ABOVE THE LIMIT, +10.0% CPU per request (+10.0% to +10.0%)')
        self.assertEqual(lines[2], '- send: NOT MEASURED')
        self.assertEqual(lines[-1], '1 of 3 workloads cost more than the limit of 3.0% allows; 1 was not measured.')
        alone = against.verdicts([compared((1, 1))], 0.03, 0.25)
        self.assertEqual(alone[-1], 'No workload costs more than the limit of 3.0% allows.')

    def test_a_verdict_from_a_busy_machine_says_that_it_is_not_reliable(self):
        lines = against.verdicts([compared((100, 110), foreign=0.8), compared((100, 100))], 0.03, 0.25)
        self.assertTrue(lines[0].endswith('[not reliable, see its note]'))
        self.assertFalse(lines[1].endswith('[not reliable, see its note]'))
        self.assertTrue(lines[-1].endswith('1 of 2 verdicts are not reliable: measure again, on a quiet machine.'))

    def test_a_table_says_the_verdict_that_it_was_too_short_or_that_there_is_no_figure(self):
        good, bad, absent = compared((100, 100)), compared((100, 110)), compared()
        self.assertEqual([c.verdict(0.03) for c in (good, bad, absent)], ['within 1.03', '**above 1.03**', 'not measured'])
        self.assertEqual([c.verdict(None) for c in (good, absent)], ['too short for one', 'not measured'])
        self.assertIn('| send | - | - | - | not measured |', against.tables([absent], 0.03, 0.25)[2])

    def test_the_gate_alone_makes_the_verdict_an_exit_status(self):
        good, bad, absent = compared((100, 100)), compared((100, 110)), compared()
        self.assertEqual(against.exit_status([good, bad], 0.03, gate=True, faults=[]), 1)
        self.assertEqual(against.exit_status([good, bad], 0.03, gate=False, faults=[]), 0)
        self.assertEqual(against.exit_status([good, good], 0.03, gate=True, faults=[]), 0)
        self.assertEqual(against.exit_status([good, bad], 0.2, gate=True, faults=[]), 0)
        self.assertEqual(against.exit_status([good, absent], 0.03, gate=True, faults=[]), 1)

    def test_the_short_form_judges_nothing_but_errors(self):
        self.assertEqual(against.exit_status([compared((100, 200))], None, gate=True, faults=[]), 0)
        self.assertEqual(against.exit_status([compared((100, 100))], None, gate=False, faults=['one']), 1)

    def test_a_busy_machine_and_rounds_that_differ_are_noted(self):
        self.assertEqual(compared((10, 10), (10, 11)).notes(0.25), [])
        self.assertEqual(compared((10, 10), foreign=0.2).notes(0.25), [])
        self.assertEqual(compared((10, 10), foreign=0.8).notes(0.25), ['other processes used up to 0.80 cores in 2 of 2 runs'])
        self.assertIn('the rounds differ too much', compared((10, 9), (10, 12)).notes(0.25)[0])

    def test_a_limit_that_is_no_share_is_refused(self):
        parser = argparse.ArgumentParser()
        against.add_options(parser)
        self.assertEqual(parser.parse_args(['--limit', '0.1']).limit, 0.1)
        self.assertEqual(parser.parse_args([]).limit, 0.03)
        for text in ('3', '-0.1', 'nan', 'much'):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as told:
                parser.parse_args([f'--limit={text}'])
            self.assertIn('0.03 is 3 %', told.getvalue())


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def program(self, name, text, mode=0o755):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def refused(self, path, why):
        with self.assertRaises(against.InvalidBinary) as refusal:
            against.inspect('before', path)
        self.assertIn(why, str(refusal.exception))

    def test_what_is_not_a_build_of_sabir_is_refused_with_the_reason(self):
        self.refused(os.path.join(self.folder, 'absent'), 'there is no such file')
        self.refused(self.folder, 'is not a file')
        self.refused(self.program('text', '#!/bin/sh\necho sabir 1.0\n', 0o644), 'is not executable')
        self.refused(self.program('data', 'no program\n'), 'cannot be run')
        self.refused(self.program('other', '#!/bin/sh\necho nginx 1.0\n'), 'is not sabir')
        self.refused(self.program('broken', '#!/bin/sh\necho sabir 1.0\nexit 3\n'), 'exited with 3')

    def test_a_bench_with_a_wrong_file_ends_with_2_and_says_why(self):
        good = self.program('good', '#!/bin/sh\necho sabir 1.0\n')
        with self.assertRaises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()) as told:
            against.inspect_both(os.path.join(self.folder, 'absent'), good)
        self.assertEqual(end.exception.code, 2)
        self.assertIn('"before" (from --against) cannot be measured', told.getvalue())
        self.assertIn('there is no such file', told.getvalue())

    def test_one_program_measured_twice_is_told(self):
        one = self.program('one', '#!/bin/sh\necho sabir 1.0\n')
        other = self.program('other', '#!/bin/sh\necho sabir 1.1\n')
        link, copy = os.path.join(self.folder, 'link'), shutil.copy(one, os.path.join(self.folder, 'copy'))
        os.symlink(one, link)
        for before, words in ((link, 'the same file'), (copy, 'the same program, byte for byte')):
            with contextlib.redirect_stderr(io.StringIO()) as told:
                self.assertIn(words, against.sameness(against.inspect_both(before, one)))
            self.assertIn(words, told.getvalue())
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(against.sameness(against.inspect_both(other, one)), '')
        self.assertEqual(told.getvalue(), '')

    def finished(self, quick, *pairs):
        """The exit status of a whole report, what was printed, and the document that was written."""
        one = self.program('one', '#!/bin/sh\necho sabir 1.0\n')
        options = argparse.Namespace(quick=quick, limit=0.03, gate=True, out=os.path.join(self.folder, 'out'))
        with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.redirect_stderr(told):
            builds = against.inspect_both(one, one)
            status = against.finish('', options, dict(rounds=len(pairs)), ['- head'], builds, [compared(*pairs)])
        with open(os.path.join(self.folder, 'out.json')) as f:
            return status, told.getvalue(), json.load(f)

    def test_a_report_is_printed_and_written_with_its_verdict(self):
        status, told, doc = self.finished(False, (100, 104), (100, 106), (100, 105))
        self.assertEqual(status, 1)
        self.assertIn('- send: ABOVE THE LIMIT, +5.0% CPU per request (+4.0% to +6.0%)', told)
        self.assertIn('bench: above the limit of 3.0%, or not measured: send\n', told)
        self.assertIn('Both builds are the same file', told)
        work = doc['workloads'][0]
        self.assertEqual(work['cpu_ratio'], dict(median=1.05, low=1.04, high=1.06))
        self.assertEqual((work['above_limit'], work['cpu_us_per_req'], doc['limit']), (True, dict(before=100, new=105), 0.03))
        self.assertEqual([r['new']['cpu_us_per_req'] for r in work['rounds']], [104, 106, 105])
        self.assertTrue(os.path.exists(os.path.join(self.folder, 'out.md')))

    def test_a_short_report_has_figures_and_no_verdict(self):
        status, told, doc = self.finished(True, (100, 150))
        self.assertEqual(status, 0)
        self.assertIn('1.500', told)
        self.assertNotIn('limit', told.lower())
        self.assertIsNone(doc['workloads'][0]['above_limit'])


def run():
    """0 when every check passes, else 1 after what failed has been printed on standard error."""
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    return 0 if unittest.TextTestRunner(verbosity=0).run(tests).wasSuccessful() else 1
