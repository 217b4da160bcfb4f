"""The views of the page in a real browser: a device, a pod, a plugin, a socket, refused pods, the doctor's findings."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from datetime import timedelta

from plugbay.observe.page.live import LiveNode
from plugbay.observe.places import NodePlaces
from plugbay.observe.view import (
    DeviceHolder,
    DeviceView,
    ObservedNode,
    PluginMoment,
    PluginView,
    RejectedPod,
    ResourceView,
    SocketView,
)
from tests.e2e.browsed_page import (
    AT,
    GPU,
    HOSTILE,
    browsed,
    labels,
    places,
    playwright,
    pytestmark,
    serving,
    write,
)

__all__ = ["places", "pytestmark"]


async def test_a_pod_shows_what_its_containers_were_given(places: NodePlaces) -> None:
    async with browsed(places, "phone") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        await page.get_by_role("dialog").get_by_role("button", name="uid-1/main").click()
        await page.get_by_text("VISIBLE=<script>alert(2)</script>").wait_for()


async def test_pods_without_uid_are_told_apart_by_name(places: NodePlaces) -> None:
    live = LiveNode()
    held = [
        DeviceView(id=each, holders=(DeviceHolder(container="main", namespace="x", pod=f"nouid-{each}"),))
        for each in ("a", "b")
    ]
    await live.show(ObservedNode(taken=AT, root="/k", resources=(ResourceView(name=GPU, devices=tuple(held)),)))
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        await page.locator(".figure", has_text="pods with devices").get_by_text("2", exact=True).wait_for()
        await page.get_by_role("button", name="a, ").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="x/nouid-a/main").click()
        await dialog.get_by_role("heading", name="Pod x/nouid-a").wait_for()
        await dialog.get_by_text("found by its UID, which no source tells").wait_for()
        assert await dialog.locator("[data-device]").all_text_contents() == ["a (Unknown)"]


async def test_what_is_open_can_be_left_backwards_and_shared(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        dialog = page.get_by_role("dialog")
        assert page.url.endswith(f"/#device=gpu-1&of={GPU}")
        back = dialog.get_by_role("button", name="Back")
        assert not await back.count()
        await dialog.get_by_role("button", name="uid-1/main").click()
        await dialog.get_by_role("heading", name="Pod uid-1").wait_for()
        assert page.url.endswith("/#pod=uid-1")
        await playwright.expect(dialog.get_by_role("heading", name="Pod uid-1")).to_be_focused()
        await back.click()
        await dialog.get_by_role("heading", name="gpu-1").wait_for()
        await page.go_forward()
        await dialog.get_by_role("heading", name="Pod uid-1").wait_for()
        shared = page.url
        await page.keyboard.press("Escape")
        await playwright.expect(dialog).to_have_count(0)
        assert page.url == shared.partition("#")[0]
        await page.goto("about:blank")
        await page.goto(shared)
        await dialog.get_by_text("VISIBLE=").wait_for()
        await page.goto(f"{page.url.partition('#')[0]}#pod=default/gone")
        await dialog.get_by_text("This pod is not there any more.").wait_for()
        await page.goto(f"{page.url.partition('#')[0]}#device={HOSTILE}&of={GPU}")
        await dialog.get_by_role("heading", name="<img src=x").wait_for()


async def test_an_open_dialog_follows_changes_and_keeps_the_focus(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        link = page.get_by_role("dialog").get_by_role("button", name="uid-1/main")
        await link.focus()
        await link.evaluate("link => { link.marked = true; }")
        write(places, "gpu-0", "gpu-2")  # gpu-1 fails, and its pod keeps it
        await page.get_by_role("dialog").get_by_text("Unhealthy").first.wait_for()
        assert await link.evaluate("link => link.marked === true && document.activeElement === link")
        write(places, "gpu-0", "gpu-2", held="gpu-2")
        await page.get_by_role("dialog").get_by_text("This device is not there any more.").wait_for()
        await page.get_by_role("dialog").get_by_text("gpu-1 vanished").wait_for()


async def test_a_plugin_shows_its_life_and_a_socket_what_is_seen_of_it(places: NodePlaces) -> None:
    steps = ("registered", "sent its first list", HOSTILE)
    life = tuple(PluginMoment(AT + timedelta(seconds=step), text, "gpu.sock") for step, text in enumerate(steps))
    plugin = PluginView(state="Live", socket="gpu.sock", registrations=3, open_streams=1, life=life)
    node = ObservedNode(
        taken=AT,
        root="/k",
        resources=(ResourceView(name=GPU, plugin=plugin, devices=(DeviceView(id="a", is_releasing=True),)),),
        sockets=(SocketView(name="gpu.sock", made=AT), SocketView(name="other.sock", made=AT, pid=7, command="other")),
    )
    live = LiveNode()
    await live.show(node)
    async with browsed(places, "phone", serving=serving(live, places)) as page:
        assert await labels(page) == [f"a, {GPU}, Unknown, being released"]
        await page.get_by_role("button", name=GPU, exact=True).click()
        dialog = page.get_by_role("dialog")
        told = await dialog.locator("#life li").all_inner_texts()
        assert [each.splitlines()[0] for each in told] == [
            "<img src=x onerror=alert(1)>\\u202e",
            "sent its first list",
            "registered",
        ]
        assert all("gpu.sock" in each for each in told)
        await dialog.get_by_text("nothing listens").wait_for()
        ended = replace(plugin, state="Stopped", open_streams=0)
        await live.show(replace(node, resources=(ResourceView(name=GPU, plugin=ended),)))
        await dialog.get_by_text("Stopped").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="other.sock").click()
        await dialog.get_by_text("process 7 other listens").wait_for()
        await live.show(replace(node, sockets=()))
        await dialog.get_by_text("other.sock was removed").wait_for()


async def test_pods_that_are_refused_are_seen(places: NodePlaces) -> None:
    live = LiveNode()
    node = ObservedNode(taken=AT, root="/k")
    await live.show(node)
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        card = page.get_by_role("region", name="Refused pods")
        await page.locator(".figure").get_by_text("unhealthy").wait_for()
        assert not await card.count()
        refused = RejectedPod(namespace="lab", pod="train", uid="u", reason="UnexpectedAdmissionError", message=HOSTILE)
        await live.show(replace(node, rejected=(refused,)))
        await card.get_by_text("<img src=x onerror=alert(1)>\\u202e").wait_for()
        await page.locator("#events").get_by_text("lab/train was refused, UnexpectedAdmissionError").wait_for()
        await page.locator(".figure.bad").get_by_text("pod refused").wait_for()
        await card.get_by_role("button", name="lab/train").click()
        await page.get_by_role("dialog").get_by_text("UnexpectedAdmissionError").first.wait_for()
        assert page.url.endswith("/#pod=lab/train")
        await page.keyboard.press("Escape")
        await live.show(node)
        await playwright.expect(card).to_have_count(0)


async def test_the_doctor_examines_the_node_and_tells_alike_findings_together(places: NodePlaces) -> None:
    for number in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(places.kubelet.device_plugins / f"dead-{number}.sock"))
    async with browsed(places, "phone") as page:
        await page.get_by_role("button", name="Examine the node").click()
        alike = page.locator(".finding", has_text="dead-0.sock")
        await alike.get_by_text("\N{MULTIPLICATION SIGN} 5").wait_for()
        assert (await alike.inner_text()).count("To do:") == 1
        assert (await alike.inner_text()).count("dead-") < 5
        await alike.get_by_text("2 more").click()
        await alike.get_by_text("dead-4.sock").first.wait_for()
        unseen = page.locator("#findings > details")
        await unseen.get_by_text("could not see everything").click()
        assert re.search(r"would not have found everything: PBD\d{3}", await unseen.inner_text())
        assert len((await unseen.inner_text()).splitlines()) > 2  # and why


async def test_what_happened_stands_before_the_findings(places: NodePlaces) -> None:
    async with browsed(places, "phone") as page:
        await page.locator("#examine").wait_for()
        tops = "['events', 'examine'].map(each => document.getElementById(each).getBoundingClientRect().top)"
        events, doctor = await page.evaluate(tops)
        assert events < doctor
