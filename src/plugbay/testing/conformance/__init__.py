"""Judge a device plugin in any language by numbered rules: play the kubelet, look, and say what is wrong.

A *scene* is what is done with the plugin, once; a *rule* judges what was seen in one scene. `judging` plays the scenes,
several at a time, each with a kubelet and a plugin in a root of its own.

May live here: rules with their pages, scenes, the kubelet that they play, the plugin under test, reports.
May not: rules from taste; each names its source.
"""
