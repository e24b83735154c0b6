package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"pando/internal/build/recipe"
	"pando/internal/chunk"
)

// Revision counts the changes of this package that make another tree of the same recipe, or another version of the same
// tree. The release does not say that: it is another at each commit, and few of them change an image.
// TestRevision and TestSameTreeSameDigest fail when a change forgets it.
const Revision = 4

// Asked is a digest of the inputs of a build: the recipe with all that it inherits, the flags and Revision. Two builds
// with the same digest differ only by the packages that the archive had on the day and by the programs of the machine.
// It is "" for a directory and for a source, whose content is not known beforehand.
func (o Options) Asked() string {
	if o.Recipe == nil {
		return ""
	}
	what := struct {
		Revision    int
		Recipe      recipe.Recipe
		CommandLine []string
		Firmware    string
		ChunkSize   int
		Format      string   `json:",omitempty"`
		KernelFrom  string   `json:",omitempty"`
		Drivers     []string `json:",omitempty"`
	}{Revision, *o.Recipe, o.CommandLine, o.Firmware, o.ChunkSize, o.Format, "", o.Drivers}
	if o.KernelFrom != nil {
		what.KernelFrom = o.KernelFrom.Name + string(o.KernelFrom.Version)
	}
	what.Recipe.Name, what.Recipe.Text, what.Recipe.From = "", "", ""
	if what.ChunkSize == 0 {
		what.ChunkSize = chunk.DefaultChunkSize
	}
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
