// Package recipe reads recipes, which describe the content of an image, and makes trees of them.
//
// It owns the format of recipes and the cached layers of their trees, which an overlay stacks. The lowest layer is the
// installed system; files, settings and each command are layers above it. A build reuses the lowest layer while the
// archive has nothing newer, and a higher one for a day while nothing below it has changed. The pipeline
// (internal/build) calls a Maker; the command line loads recipes. It must never use a layer of another recipe, of
// another revision of the build or of an older archive. It must never let a link in a tree lead out of the tree.
package recipe
