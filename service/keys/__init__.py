"""API keys: they identify the caller and its tenant, and limit what a call may do."""
