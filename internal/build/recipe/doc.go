// Package recipe reads recipes, which say what an image consists of, and makes trees of them.
//
// It owns the format of recipes and the layers of their trees: what mmdebstrap installed is the base, and files,
// settings and each command are a layer above it, which the next build uses again while nothing below it changed. The
// pipeline (internal/build) calls a Maker; the command line loads recipes. It must never use a layer of another
// recipe, of another revision of the build or of an older archive, and never lets a link in a tree lead out of it.
package recipe
