"""Judge a device plugin in any language by numbered rules: play the kubelet, look, and say what is wrong.

A *scene* is what is done with the plugin, once; a *rule* judges what was seen in one scene. `judging` plays the scenes,
several at a time, each with a kubelet and a plugin in a root of its own.

To add rules: write what is done as a scene (`rule.scene`; it is given a `stage.Stage`) that returns a frozen dataclass
of what was seen; write each rule as a function from that to sentences (`rule.rule`), in a module of ``rules`` that
`catalogue.MODULES` names; and a page for each in ``pages``.

May live here: rules with their pages, scenes, the kubelet that they play, the plugin under test, reports.
May not: rules from taste; each names its source.
"""
