# SPDX-License-Identifier: Apache-2.0
# Installs the libraries, headers, find modules and the command, so that find_package(Tapeformer) works.
