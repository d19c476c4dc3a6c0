"""What a server holds: load in closed and open loops, from several processes, measured until it is steady.

    task = Task(target, model, version, Form.parse("packed:16"), boards, largest_exponent)
    with Workers(task, processes=2) as workers:
        hold(step := Step(Closed(8)), workers.windows, Plan())

The command `octofold loadtest` is a thin layer on these pieces.
"""
