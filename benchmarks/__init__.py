"""What the library costs, on data made here."""
