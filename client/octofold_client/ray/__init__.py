"""Octofold on a Ray cluster: servers on its nodes, evaluations spread over them. Needs the extra `ray`."""
