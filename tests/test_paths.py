import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions import paths


def digest(path):
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


NAMES = {
    "/home/user/My Project": "home-user-My_Project",
    "/home/用户/项目": "home-用户-项目",
    "/": "",
    "//srv/x": "-srv-x",
    "/home/a-b/c": "home-a-b-c",
    "/home/a/b-c": "home-a-b-c",
    "C:\\Users\\me": "-Users-me",
    "c:/Users/me": "Users-me",
    "/home/C:/x": "home-C:-x",
    "/a \t\u00a0\u3000\ufeff\u2028\u2029b": "a_b",
    "/a\u0085b\x1cc": "a\u0085b\x1cc",
    "/a\0\0b": "a__b",
    "/app-deadbeef": "app-deadbeef",
    "/odd-\udcff": "odd-\udcff",
}


@pytest.mark.parametrize(("path", "name"), NAMES.items())
def test_a_project_directory_is_called(path, name):
    assert paths.encode_workdir(path) == name


def test_a_name_of_200_units_stays_and_a_longer_one_is_cut_and_hashed():
    assert paths.encode_workdir("/" + "a" * 200) == "a" * 200
    long = "/" + "a" * 201
    assert paths.encode_workdir(long) == "a" * 191 + "-" + digest(long)


def test_an_emoji_counts_as_two_units_and_half_of_one_becomes_a_replacement_character():
    path = "/" + "a" * 190 + "😀" * 6  # 202 units, 214 bytes
    assert paths.encode_workdir(path) == "a" * 190 + "\ufffd-" + digest(path)
    whole = "/" + "a" * 189 + "😀" * 6  # 201 units: the pair ends at 191
    assert paths.encode_workdir(whole) == "a" * 189 + "😀-" + digest(whole)


def test_a_name_of_more_than_255_bytes_is_cut_at_whole_characters():
    path = "/home/" + "项" * 90  # 95 units, 275 bytes
    assert paths.encode_workdir(path) == "home-" + "项" * 62 + "-" + digest(path)
    longer = "/" + "项" * 300  # both limits
    assert paths.encode_workdir(longer) == "项" * 63 + "-" + digest(longer)


def test_bytes_that_are_no_text_count_as_one_byte_each():
    path = "/" + "\udcff" * 250
    assert paths.encode_workdir(path) == "\udcff" * 191 + "-" + digest(path)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_name_is_always_one_usable_file_name(text):
    name = paths.encode_workdir("/" + text)
    assert not set(name) & set("/\\\0 \n\ufeff")
    assert len(os.fsencode(name)) <= 255
    assert len(name.encode("utf-16-le")) // 2 <= 200


def test_a_session_lies_in_the_directory_of_its_real_workdir(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    root = tmp_path / "root"
    transcript = paths.transcript_path(root, link, "abc.def")
    assert transcript == root / "projects" / paths.encode_workdir(os.path.realpath(real)) / "abc.def.jsonl"
    assert paths.sidecar(transcript).name == "abc.def.ckpt"
    assert paths.project_directory(root, "/") == root / "projects"


SHOWN = {
    ("/home/user/shop/src/a.py", "/home/user/shop"): "src/a.py",
    ("/home/user/shop", "/home/user/shop"): ".",
    ("/home/user/shopping/a.py", "/home/user/shop"): "/home/user/shopping/a.py",
    ("/etc/hosts", "/"): "etc/hosts",
    ("/etc/hosts", "/home"): "/etc/hosts",
    ("/home/user/shop/-odd\udcff", "/home/user/shop"): "-odd\udcff",
}


@pytest.mark.parametrize(("asked", "said"), SHOWN.items())
def test_a_path_is_shown_relative_inside_the_workdir_and_else_whole(asked, said):
    assert paths.shown(*asked) == said


def test_the_root_is_where_the_environment_says_else_the_users_data_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("SESSIONS_HOME", str(tmp_path / "x"))
    assert paths.default_root() == tmp_path / "x"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SESSIONS_HOME", "~/y")
    assert paths.default_root() == tmp_path / "y"
    monkeypatch.setenv("SESSIONS_HOME", "")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert paths.default_root().is_relative_to(tmp_path)
    assert paths.default_root().name == "sessions"


def test_naming_paths_does_not_import_platformdirs():
    code = "import sys; from sessions import paths; paths.encode_workdir('/a'); sys.exit('platformdirs' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)
