"""What code in a sandbox can use of Cove."""
