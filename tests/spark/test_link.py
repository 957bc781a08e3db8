"""One jar for every Spark: its classes link with each release, and are the same whichever release compiles them."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from jvm import jar as build

from kit.programs.commands import compile_java, jdk
from kit.programs.spark_versions import INSTALLED, OLDEST, RELEASES, jars

LINK_CHECK = Path(__file__).parents[1] / "java" / "LinkCheck.java"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("releases"), pytest.mark.timeout(1200)]  # pip fetches Sparks


def link_check(jar: Path, oldest: Path, checked: Path) -> tuple[list[str], str]:
    """What does not link, a line each; and how much was looked at."""
    [asm] = jars(INSTALLED).glob("xbean-asm9-shaded-*.jar")
    classes = compile_java(LINK_CHECK, classpath=str(asm))
    command = [str(jdk().java), "-cp", f"{classes}:{asm}", "LinkCheck", str(jar), str(oldest), str(checked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("version", RELEASES)
def test_every_symbol_of_the_jar_is_in_this_spark_with_the_same_kind(version: str) -> None:
    found, looked_at = link_check(build.ensure(), jars(OLDEST), jars(version))
    assert found == [], "\n".join([f"with Spark {version}, {len(found)} symbols of the jar do not link:", *found])
    classes, references = map(int, re.findall(r"\d+", looked_at))
    assert classes > 200
    assert references > 1000


def test_the_oldest_spark_compiles_the_same_bytes(tmp_path: Path) -> None:
    build.build(tmp_path / "oldest.jar", jars(OLDEST))
    ours, oldest = (
        {name: archive.read(name) for name in archive.namelist()}
        for archive in (zipfile.ZipFile(build.ensure()), zipfile.ZipFile(tmp_path / "oldest.jar"))
    )
    assert [name for name in ours if ours[name] != oldest.get(name)] == []
    assert build.ensure().read_bytes() == (tmp_path / "oldest.jar").read_bytes()


# A library of which every symbol changes its kind, and a class that uses them all.
OLD = """
package lib;
public class Lib {
  public static class Base { protected int inner; public void open() {} public void gone() {} }
  public static class Manager { public String name() { return ""; } }
  public interface Reader { String read(); }
  public interface Closer { void close(); }
  public interface Left {}
  public interface Right {}
  public interface Sealing {}
  public static final class Made {}
  public static class Hidden {}
  public static int number;
  public static void start() {}
  public void stop() {}
  public void missing(Hidden with) {}
}
"""
NEW = """
package lib;
public class Lib {
  public static class Base { private int inner; public final void open() {} }
  public interface Manager { String name(); }
  public interface Reader { String read(); int count(); }
  public interface Closer { void close(); void closeAgain(); }
  public interface Left { default void turn() {} }
  public interface Right { default void turn() {} }
  public static class Sealing {}
  public abstract static class Made {}
  static class Hidden {}
  public int number;
  public void start() {}
  public static void stop() {}
}
"""
USER = """
package user;
import lib.Lib;
public class User extends Lib.Base implements Lib.Reader {
  public String read() { return ""; }
  public void open() {}
  public void gone() {}
  static class Both implements Lib.Left, Lib.Right, Lib.Sealing {}
  Object all(Lib lib, Lib.Manager manager) {
    Lib.Closer closer = () -> {};
    Lib.start();
    lib.stop();
    lib.missing(null);
    Lib.number = inner;
    Object hidden = new Lib.Hidden[0];
    return new Object[] {manager.name(), new Lib.Made(), closer, hidden};
  }
}
"""
FINDINGS = [
    "user.User$Both: implements lib.Lib$Sealing, which is a class",
    "user.User$Both: inherits two defaults of lib.Lib$Left.turn()V: lib.Lib$Left and lib.Lib$Right",
    "user.User: does not implement lib.Lib$Closer.closeAgain()V",
    "user.User: does not implement lib.Lib$Reader.count()I",
    "user.User: lib.Lib$Hidden is not public",
    "user.User: lib.Lib$Manager became an interface: name()Ljava.lang.String;",
    "user.User: lib.Lib.missing(Llib.Lib$Hidden;)V is missing",
    "user.User: lib.Lib.number I is not static",
    "user.User: lib.Lib.start()V is not static",
    "user.User: lib.Lib.stop()V became static",
    "user.User: makes a new lib.Lib$Made, which is abstract",
    "user.User: overrides lib.Lib$Base.gone()V, which is missing, so that nobody calls it",
    "user.User: overrides lib.Lib$Base.open()V, which is final",
    "user.User: user.User.inner I is not public",
]


def test_the_link_check_finds_every_change_of_kind(tmp_path: Path) -> None:
    made = {}
    for name, package, source, needed in (
        ("old", "lib", OLD, ""),
        ("new", "lib", NEW, ""),
        ("user", "user", USER, "old"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / f"{package.title()}.java"
        path.write_text(source)
        classpath = str(tmp_path / needed / "classes") if needed else ""
        compile_java(path, out=folder / "classes", classpath=classpath)
        made[name] = folder / f"{name}.jar"
        with zipfile.ZipFile(made[name], "w") as archive:
            for one in (folder / "classes").rglob("*.class"):
                archive.write(one, one.relative_to(folder / "classes").as_posix())
    assert link_check(made["user"], made["old"].parent, made["old"].parent)[0] == []
    assert link_check(made["user"], made["old"].parent, made["new"].parent)[0] == FINDINGS


def test_a_missing_class_is_named(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    found, _ = link_check(build.ensure(), tmp_path / "none", tmp_path / "none")
    missing = "sealberg.sql.SqlExtensions: org.apache.spark.sql.SparkSessionExtensionsProvider is missing"
    assert missing in found
