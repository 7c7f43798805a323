"""Finding and loading the library, and whether its functions are the header's."""

import support  # first: it puts the package on the path

import os
import pathlib
import re
import unittest
from unittest import mock

from p2pdiloco import errors, library


class Header(unittest.TestCase):
    """The package against bridge/include/p2pdiloco.h."""

    def setUp(self):
        self.text = (support.HEADERS / "p2pdiloco.h").read_text()
        self.code = re.sub(r"/\*.*?\*/", "", self.text, flags=re.S)

    def test_functions_have_the_arguments_of_the_header(self):
        kinds = {"p2pdiloco_node": "c_long", "uint64_t": "c_ulong", "int32_t": "c_int"}
        declared = re.findall(r"p2pdiloco_(\w+)\(([^)]*)\);", self.code)
        self.assertGreater(len(declared), 10)
        for name, arguments in declared:
            if name == "sync":  # begin, poll and finish, between which signals are handled
                continue
            _, ours = library._FUNCTIONS[name]
            theirs = [] if arguments == "void" else arguments.split(", ")
            self.assertEqual(len(ours), len(theirs), name)
            for mine, argument in zip(ours, theirs):
                if "*" not in argument:
                    self.assertEqual(mine.__name__, kinds[argument.split()[0]], (name, argument))
                else:
                    self.assertNotIn(mine.__name__, kinds.values(), (name, argument))

    def test_every_code_has_its_exception(self):
        codes = dict(re.findall(r"P2PDILOCO_(\w+) = (\d+)", self.code))
        for name, code in codes.items():
            if name not in ("OK", "ERROR", "AGAIN"):
                kind = type(errors.error_of(int(code), "x"))
                self.assertEqual(kind.__name__.upper(), name.replace("_", ""))
        self.assertIs(type(errors.error_of(int(codes["AGAIN"]), "x")), errors.NotYet)
        self.assertIs(type(errors.error_of(int(codes["ERROR"]), "x")), errors.Error)
        self.assertIs(type(errors.error_of(99, "from a later version")), errors.Error)

    def test_the_version_of_the_interface(self):
        self.assertIn(f"#define P2PDILOCO_ABI {library.ABI}u", self.text)


class Finding(unittest.TestCase):
    def test_a_path_that_is_not_there(self):
        with mock.patch.dict(os.environ, P2PDILOCO_LIBRARY="/nowhere/lib.so"):
            with self.assertRaisesRegex(errors.LibraryNotFound, "/nowhere/lib.so does not exist"):
                library._find()

    def test_none_at_all(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("P2PDILOCO_LIBRARY", None)
            with mock.patch.object(library, "FILE_NAME", "libnot-there.so"):
                hint = "pip install .*P2PDILOCO_LIBRARY"
                with self.assertRaisesRegex(errors.LibraryNotFound, hint):
                    library._find()

    def test_no_library(self):
        with self.assertRaisesRegex(errors.LibraryNotFound, "cannot be loaded"):
            library.Library(str(pathlib.Path(__file__)))
        with self.assertRaisesRegex(errors.LibraryNotFound, "lacks p2pdiloco_abi"):
            library.Library("libm.so.6")

    def test_another_version_of_the_interface(self):
        path = support.build("libother.so", "-DFAKE_ABI=2")
        with self.assertRaisesRegex(errors.LibraryNotFound, "version 2 .* version 1"):
            library.Library(path)


if __name__ == "__main__":
    unittest.main()
