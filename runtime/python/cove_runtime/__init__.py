"""What runs inside a sandbox: programs run to completion, and kernels. `main` is where both begin."""
