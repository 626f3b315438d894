// Marks the root of the module. build.sh names the file that counts, one for each version: 1.36.mod, 1.37.mod.
module trikubelet.dev/packaging/node-conformance

go 1.26.0
