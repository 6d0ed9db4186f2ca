"""IOS, the inter-operator scheduler (Ding et al., MLSys 2021), as a plugin for TVM."""
