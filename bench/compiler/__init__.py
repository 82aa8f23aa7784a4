"""What a step of a network costs the host: graphs replayed and run op by op, beside torch."""
