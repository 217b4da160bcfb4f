from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import sys
from plugbay.ops.late_modules import fill_late
fill_late()
"""
IS_FILLED = """
def is_filled():
    return "_ssl" in sys.modules
"""
NO_CERTIFICATES = """
def context(side):
    made = ssl.SSLContext(side)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers("AECDH-AES256-SHA@SECLEVEL=0")
    return made
"""
TLS_SERVER = """
async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello")
    await writer.drain()
    writer.close()

async def serving():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context(ssl.PROTOCOL_TLS_SERVER))
    return server, server.sockets[0].getsockname()[1]
"""


def run(*parts: str) -> str:
    """What a Python of its own prints that runs the parts, after it has asked to fill modules late."""
    program = "\n".join(textwrap.dedent(part) for part in (BEGIN, IS_FILLED, *parts))
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=50)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_asyncio_over_unix_sockets_and_processes_does_without_tls() -> None:
    run(
        """
        import asyncio, socket, tempfile, threading

        async def echo(reader, writer):
            writer.write(await reader.readexactly(5))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        async def main(directory):
            path = f"{directory}/s"
            async with await asyncio.start_unix_server(echo, path):
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(path)
                connection.setblocking(False)
                reader, writer = await asyncio.open_unix_connection(sock=connection)
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                writer.close()
                await writer.wait_closed()
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
            assert await process.wait() == 0
            assert await asyncio.to_thread(lambda: 1) == 1

        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(main(directory))
        assert not is_filled()
        with open("/proc/self/maps") as maps:
            assert "libssl" not in maps.read()
        """
    )


def test_modules_that_only_name_ssl_leave_it_empty() -> None:
    run(
        """
        import http.client, urllib.request, asyncio, smtplib, ssl
        import ssl as again
        from asyncio import sslproto
        import asyncio.sslproto
        assert not is_filled()
        assert repr(ssl) == f"<module 'ssl' from {ssl.__file__!r}>"
        assert ssl.__name__ == ssl.__spec__.name == "ssl"
        assert type(ssl.__loader__) is type(asyncio.__loader__)
        assert not is_filled()
        """
    )


@pytest.mark.parametrize(
    "look",
    [
        "assert not isinstance(1, ssl.SSLContext)",
        "assert issubclass(ssl.SSLError, OSError)",
        "from ssl import SSLContext, create_default_context",
        "from ssl import *\nassert HAS_TLSv1_2 is not None",
        "assert 'SSLContext' in dir(ssl)",
        "import inspect\nassert dict(inspect.getmembers(ssl))['SSLContext'] is ssl.SSLContext",
        "ssl.ours = 1\nassert ssl.ours == 1\ndel ssl.ours\nassert not hasattr(ssl, 'ours')",
        "ssl.SSLContext = 1\nassert ssl.SSLContext == 1 and ssl.SSLSocket",
        "del ssl.SSLContext\nassert not hasattr(ssl, 'SSLContext')",
        "ssl._create_default_https_context = ssl._create_unverified_context\n"
        "assert ssl._create_default_https_context is ssl._create_unverified_context",
        "try:\n    raise OSError\nexcept ssl.SSLError:\n    raise\nexcept OSError:\n    pass",
        "class Ours(ssl.SSLError): ...\nassert Ours.__mro__[1] is ssl.SSLError",
        "import importlib\nassert importlib.reload(ssl) is ssl and ssl.SSLContext",
        "ssl.SSLContext\nimport importlib\nassert importlib.reload(ssl) is ssl and ssl.SSLContext",
        "import pickle\nerror = pickle.loads(pickle.dumps(ssl.SSLError(1, 'x')))\nassert type(error) is ssl.SSLError",
        "from unittest import mock\nwith mock.patch('ssl.SSLContext', 1):\n    assert ssl.SSLContext == 1\n"
        "assert isinstance(ssl.SSLContext, type)",
        "from asyncio import sslproto\nassert sslproto.SSLAgainErrors == (ssl.SSLWantReadError, ssl.SSLSyscallError)",
    ],
)
def test_any_look_finds_what_it_would_have_found(look: str) -> None:
    run(
        "import asyncio, ssl\nassert not is_filled()",
        look,
        """
        assert is_filled()
        from types import ModuleType
        assert type(ssl) is ModuleType
        assert ssl is sys.modules["ssl"] is asyncio.base_events.ssl
        """,
    )


def test_what_is_missing_is_missing_in_the_usual_words() -> None:
    run(
        """
        import ssl
        for _ in range(2):
            try:
                ssl.nonsense
            except AttributeError as error:
                assert str(error) == "module 'ssl' has no attribute 'nonsense'", error
            else:
                raise AssertionError
        """
    )


def test_a_module_that_was_imported_before_stays_as_it_is() -> None:
    program = (
        f"import ssl\nbefore = dict(vars(ssl))\n{BEGIN}\nimport ssl, asyncio\nassert vars(ssl) == before\nfill_late()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_look_at_once_all_find_a_full_module() -> None:
    run(
        """
        import asyncio, ssl, threading
        many = 16
        at_once, found = threading.Barrier(many), []
        sys.setswitchinterval(1e-6)

        def look(number):
            at_once.wait()
            names = ["SSLContext", "create_default_context", "TLSVersion", "get_server_certificate"]
            names = names[number % 4 :] + names[: number % 4]
            seen = {name: getattr(ssl, name) for name in names}
            found.append({**seen, "again": asyncio.sslproto.SSLAgainErrors})

        threads = [threading.Thread(target=look, args=(number,)) for number in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == many
        assert all(each == found[0] for each in found)
        """
    )


def test_tls_of_asyncio_works() -> None:
    said = run(
        "import asyncio, ssl",
        NO_CERTIFICATES,
        TLS_SERVER,
        """
        async def main():
            server, port = await serving()
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context(ssl.PROTOCOL_TLS_CLIENT))
            writer.write(b"GET / HTTP/1.1\\r\\n\\r\\n")
            print((await reader.read()).decode().partition("\\r\\n\\r\\n")[2])
            writer.close()
            server.close()

        asyncio.run(main())
        """,
    )
    assert said == "hello\n"


def test_asyncio_makes_its_own_context_for_tls() -> None:
    run(
        """
        import asyncio, ssl

        async def main():
            ended = asyncio.Event()

            async def answer(reader, writer):
                writer.write(b"this is not TLS\\r\\n")
                await reader.read()
                writer.close()
                await writer.wait_closed()
                ended.set()

            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            assert not is_filled()
            try:
                await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1], ssl=True)
            except ssl.SSLError as error:
                assert error.reason == "WRONG_VERSION_NUMBER"
            else:
                raise AssertionError
            await ended.wait()
            server.close()

        asyncio.run(main())
        """
    )


def test_https_of_the_standard_library_works() -> None:
    said = run(
        "import asyncio, http.client, ssl, urllib.request",
        NO_CERTIFICATES,
        TLS_SERVER,
        """
        def fetch(port):
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context(ssl.PROTOCOL_TLS_CLIENT))
            connection.request("GET", "/")
            print(connection.getresponse().read().decode())
            connection.close()
            with urllib.request.urlopen(f"https://127.0.0.1:{port}", context=context(ssl.PROTOCOL_TLS_CLIENT)) as got:
                print(got.read().decode())

        async def main():
            server, port = await serving()
            await asyncio.to_thread(fetch, port)
            server.close()

        asyncio.run(main())
        """,
    )
    assert said == "hello\nhello\n"


@pytest.mark.skipif("_ssl" in sys.builtin_module_names, reason="this Python cannot be without TLS")
def test_a_python_without_tls_says_so_at_the_import() -> None:
    run(
        """
        sys.path[:] = [entry for entry in sys.path if "dynload" not in entry]
        sys.path_importer_cache.clear()
        try:
            import ssl
        except ImportError as error:
            assert error.name == "_ssl"
        else:
            raise AssertionError
        assert "ssl" not in sys.modules
        """
    )


def test_a_look_that_failed_can_be_repeated() -> None:
    run(
        """
        import ssl
        sys.modules["_ssl"] = None
        try:
            ssl.SSLContext
        except ImportError:
            del sys.modules["_ssl"]
        assert ssl.SSLContext
        """
    )


def test_messages_do_without_the_slow_way_to_make_them() -> None:
    run(
        """
        from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
        assert pb.Device.FromString(pb.Device(ID="a").SerializeToString()).ID == "a"
        module = sys.modules["google.protobuf.internal.python_message"]
        assert "GeneratedProtocolMessageType" not in vars(module)
        assert module.GeneratedProtocolMessageType
        """
    )


def test_pages_over_tcp_do_without_tls() -> None:
    run(
        """
        import asyncio
        from plugbay.ops.http import serve_http
        from plugbay.ops.listening import TcpAddress
        from plugbay.ops.routing import Response, Router

        async def hello(request):
            return Response(body=b"hello")

        async def main():
            router = Router()
            router.add("GET", "/", hello)
            async with serve_http(router, TcpAddress("127.0.0.1", 0)) as bound:
                program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read())"
                asked = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", program, f"http://{bound}/", stdout=asyncio.subprocess.PIPE
                )
                assert (await asked.communicate())[0] == b"b'hello'\\n"

        asyncio.run(main())
        assert not is_filled()
        """
    )
