package main

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
)

// stages say how simulated nodes, pods and volumes live; kwok plays them.
//
//go:embed stages/*.yaml
var stages embed.FS

// stagesFile is the file in the state directory that kwok reads them from.
const stagesFile = "stages.yaml"

// writeStages writes all stages into one file.
func writeStages(path string) error {
	names, err := fs.Glob(stages, "stages/*.yaml")
	if err != nil {
		return err
	}
	var documents [][]byte
	for _, name := range names {
		content, err := stages.ReadFile(name)
		if err != nil {
			return err
		}
		documents = append(documents, content)
	}
	return os.WriteFile(path, bytes.Join(documents, []byte("---\n")), 0o600)
}
