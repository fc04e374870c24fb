# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs and libraries with which `hakmem run` cannot work: each is refused, with the reason."""

from __future__ import annotations

import ctypes.util
import os
import resource
import shutil
import stat
import subprocess
from pathlib import Path

import support
from support import COMPILER, PROBE, STAND_IN, CommandCase, as_nobody, needs_root, patch, patch_loader, program_segments

PT_LOAD = 1
EI_CLASS, EI_DATA, E_TYPE, E_MACHINE = 4, 5, 16, 18


def nosuid(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_NOSUID)


def as_nobody_alone() -> None:
    """No further process can be made, so the loader cannot be asked."""
    as_nobody()
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


class TestNotPrograms(CommandCase):
    """126 and 127, as env(1) gives them."""

    def test_not_found(self) -> None:
        self.assert_refused(127, "'no-such-program' was not found on PATH", "no-such-program")
        self.assert_refused(127, "'./none' was not found$", "./none", "argument")
        self.assert_refused(127, "'' was not found", "")
        self.assert_refused(127, "was not found", "probe", env={"PATH": "/nonexistent"})

    def test_not_executable(self) -> None:
        flat = self.write("flat", "#!/bin/sh\n", mode=0o644)
        self.assert_refused(126, "'/.*/flat' cannot be executed: permission denied; chmod", flat)
        self.assert_refused(126, "'flat' on PATH cannot be executed", "flat", env={"PATH": str(self.folder)})

    def test_directory(self) -> None:
        self.assert_refused(126, "'/usr' is a directory", "/usr")

    def test_neither_elf_nor_text(self) -> None:
        binary = self.folder / "binary"
        binary.write_bytes(b"\x7f\0\1\2binary")
        binary.chmod(0o755)
        self.assert_refused(126, "is neither an ELF program nor a script", binary)

    def test_object_file(self) -> None:
        target = self.compile("object.o", "int x;", "-c")
        target.chmod(0o755)
        self.assert_refused(126, "is an object file", target)

    def test_missing_loader(self) -> None:
        target = patch_loader(self.probe, self.folder / "loaderless", b"/lib64/ld-none.so.2")
        self.assert_refused(127, "its loader /lib64/ld-none.so.2 does not exist", target)

    def test_odd_names_cannot_write_to_the_terminal(self) -> None:
        done = self.assert_refused(127, "was not found", "./a\nhakmem: fine\x1b[2J")
        self.assertIn("'./a?hakmem: fine?[2J'", done.stderr)


class TestScripts(CommandCase):
    def test_interpreter_is_taken_over(self) -> None:
        script = self.write("script", f"#! {self.probe} \t one argument \n")
        done = self.assert_taken_over(script, "more")
        self.assertIn(f"argument {self.probe}\nargument one argument\nargument {script}\nargument more\n", done.stdout)

    def test_chain_as_long_as_the_kernel_follows(self) -> None:
        previous = self.probe
        for level in range(1, 7):
            previous = self.write(f"chain{level}", f"#!{previous}\n")
            self.assertEqual(self.starts_directly(previous), level <= 5)
            if level <= 5:
                self.assert_taken_over(previous)
        self.assert_refused(126, "too many scripts", previous)

    def starts_directly(self, program: Path) -> bool:
        try:
            return subprocess.run([program], capture_output=True).returncode == 0
        except OSError:
            return False

    def test_env(self) -> None:
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        for number, words in enumerate(("probe", "-S probe -x", "-S -u HOME A=1 probe", "--split-string=probe")):
            script = self.write(f"env{number}", f"#!/usr/bin/env {words}\n")
            self.assert_taken_over(script, env=path)
            self.assertRegex(self.hakmem("run", "--check", script, env=path).stdout, f"program +{self.probe}\n")

    def test_env_makes_the_kernel_count_anew(self) -> None:
        previous = self.probe
        for level in range(1, 6):
            previous = self.write(f"count{level}", f"#!{previous}\n")
        script = self.write("anew", f"#!/usr/bin/env {previous}\n")
        self.assertTrue(self.starts_directly(script))
        self.assert_taken_over(script)

    def test_env_that_takes_the_variable_away(self) -> None:
        for number, words in enumerate(("-S -i probe", "-iS probe", "-S -u LD_PRELOAD probe", "-S LD_PRELOAD= sh")):
            script = self.write(f"away{number}", f"#!/usr/bin/env {words}\n")
            self.assert_refused(125, "its #! line has env remove LD_PRELOAD", script)

    def test_env_without_program(self) -> None:
        script = self.write("lost", "#!/usr/bin/env no-such-program\n")
        self.assert_refused(127, "is a script for 'no-such-program'", script)
        self.assert_refused(126, "names no program", self.write("empty-env", "#!/usr/bin/env\n"))

    def test_env_in_circles(self) -> None:
        self.write("circle", "#!/usr/bin/env circle\n")
        self.assert_refused(126, "too many scripts", "circle", env={"PATH": f"{self.folder}:{os.environ['PATH']}"})

    def test_missing_interpreter(self) -> None:
        self.assert_refused(127, "is a script for /none/sh", self.write("gone", "#!/none/sh\n"))
        self.assert_refused(126, "is a script for /usr, which cannot", self.write("folder", "#!/usr\n"))

    def test_static_interpreter(self) -> None:
        static = self.compile("static-interpreter", PROBE, "-static")
        script = self.write("for-static", f"#!{static}\n")
        self.assert_refused(125, f"cannot take over {script}: {static} is statically linked", script)

    def test_text_is_for_the_shell(self) -> None:
        script = self.write("text", f'exec {self.probe} "$0" "$@"\n')
        for name, path in ((script, os.environ["PATH"]), ("text", f"{self.folder}:{os.environ['PATH']}")):
            done = self.assert_taken_over(name, "a b", env={"PATH": path})
            self.assertIn(f"argument {script}\nargument a b\n", done.stdout)


class TestStatic(CommandCase):
    def test_static(self) -> None:
        target = self.compile("static", PROBE, "-static")
        self.assert_refused(125, f"cannot take over {target}: it is statically linked, and so", target)
        forced = self.hakmem("run", "--force", target)
        self.assertEqual(forced.returncode, 0)
        self.assertRegex(forced.stderr, "^hakmem: warning: .* statically linked")
        self.assertNotIn("libhakmem", forced.stdout)  # the refusal was right

    def test_static_pie(self) -> None:
        target = self.compile("static-pie", PROBE, "-static-pie", "-fPIE")
        self.assert_refused(125, r"it is statically linked \(static-pie\)", target)

    def test_shared_library(self) -> None:
        self.assert_refused(125, "it is a shared library, or", self.library)

    def test_the_loader_itself(self) -> None:
        self.assert_taken_over(support.LOADER.decode(), self.probe)
        done = self.hakmem("run", "--check", support.LOADER.decode(), self.probe)
        self.assertIn("was not checked", done.stdout)


class TestSecureExecution(CommandCase):
    """Programs whose loader ignores LD_PRELOAD because they change rights."""

    def owned(self, name: str, uid: int, gid: int, mode: int) -> Path:
        target = self.folder / name
        shutil.copy(self.probe, target)
        os.chown(target, uid, gid)
        target.chmod(mode)
        if nosuid(target):
            self.skipTest("this file system ignores set-user-ID")
        return target

    def assert_right(self, target: Path) -> None:
        """What was refused really does not take the library."""
        forced = self.hakmem("run", "--force", target, preexec=as_nobody)
        self.assertEqual(forced.returncode, 0, forced.stderr)
        self.assertRegex(forced.stderr, "^hakmem: warning:")
        self.assertNotIn(str(self.library), forced.stdout)

    @needs_root
    def test_set_user_id(self) -> None:
        target = self.owned("setuid", 0, 0, 0o4755)
        self.assert_refused(125, r"it runs with the rights of user 0 \(set-user-ID\)", target, preexec=as_nobody)
        self.assert_right(target)
        self.assert_taken_over(target)  # its owner may

    @needs_root
    def test_set_group_id(self) -> None:
        target = self.owned("setgid", 0, 0, 0o2755)
        self.assert_refused(125, r"rights of group 0 \(set-group-ID\)", target, preexec=as_nobody)
        self.assert_right(target)
        self.assert_taken_over(self.owned("setgid-no-x", 0, 0, 0o2745), preexec=as_nobody)  # has no effect

    @needs_root
    def test_through_a_script(self) -> None:
        target = self.owned("setuid-interpreter", 0, 0, 0o4755)
        script = self.write("for-setuid", f"#!{target}\n")
        self.assert_refused(125, f"{target} runs with the rights of user 0", script, preexec=as_nobody)
        script.chmod(0o4755)  # the kernel ignores it on scripts
        self.assert_taken_over(self.write("suid-script", f"#!{self.probe}\n", mode=0o4755), preexec=as_nobody)

    @needs_root
    def test_no_new_privileges(self) -> None:
        target = self.owned("setuid-powerless", 0, 0, 0o4755)

        def powerless() -> None:
            as_nobody()
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS

        self.assert_taken_over(target, preexec=powerless)

    @needs_root
    def test_file_capabilities(self) -> None:
        target = self.owned("capable", 0, 0, 0o755)
        permitted = (0x02000001).to_bytes(4, "little") + (1 << 10).to_bytes(4, "little") + bytes(12)
        os.setxattr(target, "security.capability", permitted)  # cap_net_bind_service=ep
        self.assert_refused(125, "it has file capabilities", target, preexec=as_nobody)
        self.assert_right(target)
        self.assert_taken_over(target)  # root has them anyway
        os.setxattr(target, "security.capability", (0x02000000).to_bytes(4, "little") + bytes(16))
        self.assert_taken_over(target, preexec=as_nobody)  # none are given

    def test_own_set_user_id(self) -> None:
        target = self.owned("own", os.getuid(), os.getgid(), 0o4755)
        self.assert_taken_over(target)

    def test_system_program(self) -> None:
        program = shutil.which("su") or shutil.which("passwd")
        if program is None or not os.stat(program).st_mode & stat.S_ISUID or nosuid(Path(program)):
            self.skipTest("neither su nor passwd is there with set-user-ID")
        self.assert_refused(125, "rights of user 0", program, preexec=as_nobody)

    @needs_root
    def test_unreadable(self) -> None:
        target = self.owned("unreadable", 0, 0, 0o711)
        self.assert_refused(125, "it cannot be read, hence not inspected", target, preexec=as_nobody)
        forced = self.hakmem("run", "--force", target, preexec=as_nobody)
        self.assertEqual(forced.returncode, 0, forced.stderr)


class TestArchitecture(CommandCase):
    def test_other_programs(self) -> None:
        kinds = (
            ("x86", "32-bit x86", (EI_CLASS, b"\1"), (E_MACHINE, b"\3\0")),
            ("x32", "32-bit x86-64", (EI_CLASS, b"\1")),
            ("arm", "64-bit AArch64", (E_MACHINE, b"\xb7\0")),
            ("power", "64-bit big-endian PowerPC64", (EI_DATA, b"\2"), (E_MACHINE, b"\0\x15")),
            ("odd", "64-bit machine 43981", (E_MACHINE, b"\xcd\xab")),
        )
        for name, kind, *changes in kinds:
            target = patch(self.probe, self.folder / name, *changes)
            self.assert_refused(125, f"it is for {kind}, the library for 64-bit x86-64", target)

    def test_forced_exec_failure(self) -> None:
        target = patch(self.probe, self.folder / "forced", (E_MACHINE, b"\xcd\xab"))
        done = self.hakmem("run", "--force", target)
        self.assertEqual(done.returncode, 126)
        self.assertRegex(done.stderr, "warning: .*\nhakmem: cannot execute .*: Exec format error")

    def test_musl(self) -> None:
        target = patch_loader(self.probe, self.folder / "musl", b"/lib/ld-musl-x86_64.so.1")
        self.assert_refused(125, "it uses musl .loader /lib/ld-musl.*the library is made for glibc", target)

    def test_other_libraries(self) -> None:
        arm = patch(self.library, self.folder / "libarm.so", (E_MACHINE, b"\xb7\0"))
        self.assert_refused(125, "libarm.so is for 64-bit AArch64, another", "--lib", arm, "true")
        small = patch(self.library, self.folder / "libsmall.so", (EI_CLASS, b"\1"), (E_MACHINE, b"\3\0"))
        self.assert_refused(125, "libsmall.so is for 32-bit x86, another", "--lib", small, "true")


class TestLibraries(CommandCase):
    """A library that cannot be preloaded is told before the program starts, not by the loader afterwards."""

    def assert_library_refused(self, reason: str, library: str | Path, **options: object) -> None:
        self.assert_refused(125, reason + ".*\nhakmem: hint: ", "--lib", library, self.probe, **options)
        done = self.hakmem("--version", env={"HAKMEM_LIBRARY": str(library)}, **options)  # type: ignore[arg-type]
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, f"no library: .*{reason}")

    def test_missing(self) -> None:
        self.assert_library_refused("/none/libhakmem.so cannot be opened: No such file", "/none/libhakmem.so")

    def test_not_elf(self) -> None:
        self.assert_library_refused("not an ELF file", self.write("text.so", "INPUT(libhakmem.so.0)\n"))
        self.assert_library_refused("not an ELF file", self.write("empty.so", ""))
        self.assert_library_refused("cannot be read: Is a directory", self.folder)

    def test_not_a_shared_library(self) -> None:
        self.assert_library_refused("not a shared library", self.compile("lib.o", STAND_IN, "-c"))

    def test_not_hakmem(self) -> None:
        other = self.compile("other.so", "int x;", "-shared", "-fPIC")
        self.assert_library_refused("is not hakmem's library", other)
        prefixed = self.compile("prefixed.so", 'char *hakmem_version(void) { return "1"; }', "-shared", "-fPIC")
        self.assert_library_refused("replaces nothing", prefixed)

    def test_both_hash_tables(self) -> None:
        for style in ("sysv", "gnu", "both"):
            library = self.compile(f"{style}.so", STAND_IN, "-shared", "-fPIC", f"-Wl,--hash-style={style}")
            done = self.hakmem("run", "--lib", library, self.probe)
            self.assertIn(f"malloc {library}\n", done.stdout, done.stderr)

    def test_cut_off(self) -> None:
        whole = self.library.read_bytes()
        end = max(offset + size for offset, size in program_segments(self.library, PT_LOAD))
        for size in (4, 20, 60, 100, 1000, end // 2, end - 1):
            short = self.folder / f"short{size}.so"
            short.write_bytes(whole[:size])
            self.assert_library_refused("is damaged: ", short)

    @needs_root
    def test_unreadable(self) -> None:
        hidden = self.folder / "hidden.so"
        shutil.copy(self.library, hidden)
        hidden.chmod(0o600)
        self.assert_library_refused("hidden.so cannot be read: Permission denied", hidden, preexec=as_nobody)

    def test_path_that_ld_preload_cannot_express(self) -> None:
        for name in ("a b", "a:b", "a$ORIGIN"):
            odd = self.folder / name
            odd.mkdir()
            shutil.copy(self.library, odd / "libhakmem.so")
            self.assert_library_refused("which LD_PRELOAD cannot express", odd / "libhakmem.so")

    def test_loader_refuses_it(self) -> None:
        needed = self.compile("libneeded.so", "int needed(void) { return 1; }", "-shared", "-fPIC")
        source = STAND_IN + "int needed(void); int use(void) { return needed(); }"
        library = self.compile("needy.so", source, "-shared", "-fPIC", needed)
        needed.rename(self.folder / "moved")
        self.assert_refused(125, "its loader cannot use the library: .*libneeded", "--lib", library, self.probe)

    def test_loader_lacks_a_version(self) -> None:
        script = self.write("new.map", "NEW_1 { needed; };")
        options = ("-shared", "-fPIC", "-Wl,-soname,libversioned.so")
        source = "int needed(void) { return 1; }"
        needed = self.compile("libversioned.so", source, *options, f"-Wl,--version-script={script}")
        user = STAND_IN + "int needed(void); int use(void) { return needed(); }"
        library = self.compile("newer.so", user, "-shared", "-fPIC", needed, f"-Wl,-rpath,{self.folder}")
        self.write("new.map", "OLD_1 { needed; };")
        self.compile("libversioned.so", source, *options, f"-Wl,--version-script={script}")
        self.assert_refused(125, "cannot use the library: .*NEW_1.*not found", "--lib", library, self.probe)


class TestOtherAllocators(CommandCase):
    dummy: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        options = ("-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.2")
        cls.dummy = cls.compile("libjemalloc.so.2", "int mallctl(void) { return 0; }", *options)

    def link(self, name: str, *options: str | Path) -> Path:
        return self.compile(name, PROBE, "-Wl,--no-as-needed", *options)

    def test_linked_by_name(self) -> None:
        target = self.link("direct", self.dummy, f"-Wl,-rpath,{self.folder}")
        self.assert_refused(125, rf"linked with another allocator, jemalloc \({self.dummy}\)", target)
        forced = self.hakmem("run", "--force", target)
        self.assertRegex(forced.stderr, "^hakmem: warning: .* jemalloc")
        self.assertIn(f"malloc {self.library}\n", forced.stdout)  # in front all the same

    def test_installed_ones(self) -> None:
        tried = 0
        for name, display in (("jemalloc", "jemalloc"), ("tcmalloc_minimal", "tcmalloc"), ("mimalloc", "mimalloc")):
            file = ctypes.util.find_library(name)
            if file is not None:
                tried += 1
                target = self.link(f"with-{name}", f"-l:{file}")
                self.assert_refused(125, f"linked with another allocator, {display} ", target)
        if tried == 0:
            self.skipTest("none of jemalloc, tcmalloc, mimalloc is installed")

    def test_linked_through_another_library(self) -> None:
        rpath = f"-Wl,-rpath,{self.folder}"
        middle = self.compile("libmiddle.so", "int m;", "-shared", "-fPIC", "-Wl,--no-as-needed", self.dummy, rpath)
        self.assert_refused(125, "another allocator, jemalloc", self.link("indirect", middle, rpath))

    def test_found_by_library_path(self) -> None:
        target = self.link("by-path", self.dummy)
        self.assert_refused(125, "another allocator, jemalloc", target, env={"LD_LIBRARY_PATH": str(self.folder)})

    def test_defines_malloc_under_another_name(self) -> None:
        source = STAND_IN.replace("hakmem_version", "other_version")
        other = self.compile("libpool.so", source, "-shared", "-fPIC")
        target = self.link("with-pool", other, f"-Wl,-rpath,{self.folder}")
        self.assert_refused(125, "another allocator: .*/libpool.so defines malloc", target)

    def test_names_that_only_begin_alike(self) -> None:
        for name in ("libtsanta.so", "libhoarder.so", "libscudos.so"):
            other = self.compile(name, "int x;", "-shared", "-fPIC")
            self.assert_taken_over(self.link(f"with-{name}", other, f"-Wl,-rpath,{self.folder}"))

    def test_preloaded(self) -> None:
        done = self.assert_refused(125, "LD_PRELOAD names another", self.probe, env={"LD_PRELOAD": str(self.dummy)})
        self.assertIn("jemalloc", done.stderr)

    def test_defined_by_the_program(self) -> None:
        own = STAND_IN.replace("hakmem_version", "other_version")
        target = self.compile("own", own + PROBE, "-rdynamic")
        self.assert_refused(125, "it defines malloc itself, which comes before any library", target)
        forced = self.hakmem("run", "--force", target)
        self.assertNotIn(f"malloc {self.library}\n", forced.stdout)  # the refusal was right

    def test_already_linked_with_hakmem(self) -> None:
        target = self.compile("ours", STAND_IN + PROBE, "-rdynamic")
        self.assert_refused(125, "it is already linked with hakmem", target)

    def test_sanitizer(self) -> None:
        test = subprocess.run([COMPILER, "-fsanitize=address", "-x", "c", "-", "-o", "/dev/null"], input=b"int main;")
        if test.returncode != 0:
            self.skipTest(f"{COMPILER} has no AddressSanitizer")
        target = self.compile("sanitized", PROBE, "-fsanitize=address")
        self.assert_refused(125, "another allocator, AddressSanitizer|defines malloc itself", target)


class TestWithoutAskingTheLoader(CommandCase):
    """Where no process can be made for the question, DT_NEEDED is followed instead."""

    dummy: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        options = ("-shared", "-fPIC", "-Wl,-soname,libhoard.so")
        (cls.folder / "deep").mkdir(mode=0o755)
        cls.dummy = cls.compile("deep/libhoard.so", "int hoard;", *options)

    def test_no_process_can_be_made(self) -> None:
        done = subprocess.run(["sh", "-c", "true & wait"], preexec_fn=as_nobody_alone, capture_output=True)
        self.assertNotEqual(done.returncode, 0)

    def link(self, name: str, middle_options: tuple[str, ...], options: tuple[str, ...]) -> Path:
        """A program that needs a library that needs the dummy."""
        library = ("-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-soname,lib{name}.so")
        middle = self.compile(f"lib{name}.so", "int m;", *library, self.dummy, *middle_options)
        late = ("-Wl,--no-as-needed", f"-Wl,-rpath-link,{self.folder}/deep")
        return self.compile(name, PROBE, *late, middle, *options)

    def assert_found(self, target: Path, **options: object) -> None:
        self.assert_refused(125, f"Hoard .{self.dummy}", target, preexec=as_nobody_alone, **options)

    def test_takes_over(self) -> None:
        self.assert_taken_over(self.probe, preexec=as_nobody_alone)

    def test_runpath_with_origin(self) -> None:
        target = self.link("runpath", ("-Wl,-rpath,${ORIGIN}/deep",), ("-Wl,-rpath,$ORIGIN",))
        self.assert_found(target)

    def test_rpath_is_inherited(self) -> None:
        rpath = f"-Wl,--disable-new-dtags,-rpath,{self.folder}:$ORIGIN/deep"
        self.assert_found(self.link("rpath", (), (rpath,)))

    def test_runpath_is_not_inherited(self) -> None:
        target = self.link("stranger", (), (f"-Wl,-rpath,{self.folder}:{self.folder}/deep",))
        self.assert_refused(125, r"Hoard \(libhoard.so\)", target, preexec=as_nobody_alone)

    def test_runpath_shuts_out_inherited_rpath(self) -> None:
        rpath = f"-Wl,--disable-new-dtags,-rpath,{self.folder}:{self.folder}/deep"
        target = self.link("shut", ("-Wl,-rpath,/nonexistent",), (rpath,))
        self.assert_refused(125, r"Hoard \(libhoard.so\)", target, preexec=as_nobody_alone)

    @needs_root
    def test_directories_of_ld_so_conf(self) -> None:
        """With another ld.so.conf, in a mount namespace of its own."""
        target = self.link("configured", (), ())
        self.write("conf.d/one.conf", f"# a comment\n/nonexistent {self.folder}/none\n", mode=0o644)
        self.write("conf.d/two.conf", f"{self.folder}/deep # the right one\n", mode=0o644)
        conf = self.write("ld.so.conf", f"include {self.folder}/conf.d/*.conf\n{self.folder}\n", mode=0o644)
        script = 'mount --bind "$1" /etc/ld.so.conf && shift && exec setpriv --reuid 65534 --clear-groups "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", str(conf), "prlimit", "--nproc=1", str(self.command)]
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        done = subprocess.run(
            [*words, "run", "--check", str(target)], capture_output=True, text=True, env=support.environment()
        )
        self.assertIn(f"Hoard ({self.dummy})", done.stderr)
        self.assertEqual(done.returncode, 125)

    def test_library_path(self) -> None:
        path = f"{self.folder}:{self.folder}/deep"
        self.assert_found(self.link("by-path", (), ()), env={"LD_LIBRARY_PATH": path})

    def test_system_directories(self) -> None:
        file = ctypes.util.find_library("jemalloc")
        if file is None:
            self.skipTest("jemalloc is not installed")
        target = self.compile("installed", PROBE, "-Wl,--no-as-needed", f"-l:{file}")
        self.assert_refused(125, f"jemalloc ./.*{file}", target, preexec=as_nobody_alone)

    def test_preloaded(self) -> None:
        preload = {"LD_PRELOAD": str(self.dummy)}
        self.assert_refused(125, "LD_PRELOAD names another", self.probe, env=preload, preexec=as_nobody_alone)


if __name__ == "__main__":
    support.main()
