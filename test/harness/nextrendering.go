package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"huolala.cn/app-operator/resource"
)

// NextRendering is the latest rendering of the build that WriteNextRendering describes. It exists for tests alone: its default readiness
// probe fails after one more attempt.
const NextRendering = resource.RenderingLatest + 1

// nextRendering has the edits of the sources that make the build of the next rendering. Each text to replace occurs once in its file.
var nextRendering = []struct{ file, old, new string }{
	{"resource/buildinputs.go", "RenderingLatest = RenderingNamedPorts", "RenderingLatest = RenderingNamedPorts + 1"},
	{"resource/buildinputs.go", "{RenderingNamedPorts, RenderingTutorial}", "{RenderingLatest, RenderingNamedPorts, RenderingTutorial}"},
	{"resource/probes.go", "tcpProbe(port, 5, 3, 5)", "tcpProbe(port, 5, 3+in.Rendering-RenderingNamedPorts, 5)"},
}

// WriteNextRendering writes to a folder what the go command needs to build a later release, whose latest rendering is NextRendering. It
// returns the path of the overlay.
func WriteNextRendering(folder string) (string, error) {
	folder, err := filepath.Abs(folder) // The go command may run in another folder.
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, edit := range nextRendering {
		if _, read := texts[edit.file]; !read {
			data, err := os.ReadFile(filepath.Join(Root(), edit.file))
			if err != nil {
				return "", err
			}
			texts[edit.file] = string(data)
		}
		if strings.Count(texts[edit.file], edit.old) != 1 {
			return "", fmt.Errorf("%s does not have %q exactly once", edit.file, edit.old)
		}
		texts[edit.file] = strings.Replace(texts[edit.file], edit.old, edit.new, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(folder, filepath.Base(file))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(Root(), file)] = edited
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// BuildNextManager builds the program of a later release, whose latest rendering is NextRendering, into a folder, and returns its path.
func BuildNextManager(folder string) (string, error) {
	overlay, err := WriteNextRendering(folder)
	if err != nil {
		return "", err
	}
	return buildManager(folder, "-overlay", overlay)
}
