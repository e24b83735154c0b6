package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"pando/internal/build/recipe"
	"pando/internal/chunk"
)

// Revision must be raised for each change of this package that makes another tree from the same recipe, or another
// version from the same tree. The release number cannot serve for that: it changes with each commit. TestRevision and
// TestSameTreeSameDigest fail if a change forgets to raise it.
const Revision = 4

// Asked returns a digest of the inputs of a build: the recipe with all that it inherits, the flags and Revision.
// Builds with the same digest differ only by the archive's packages on that day and by the programs of the build
// machine. It is "" for a directory or a source, whose content is not known in advance.
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
