package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// inputsVariable has a checksum of the files that a suite in a module of its own reads or builds: Go looks for changes in the files of one module alone.
const inputsVariable = "TEST_INPUTS"

// ReadInputs reads files of the repository, and all files of folders, that other programs are about to read: scripts, manifests, code. Go repeats a test, in
// the place of a cached result, if a file or a variable that a test itself has read is another one. What TestMain reads before its tests does not count.
func ReadInputs(paths ...string) error {
	_ = os.Getenv(inputsVariable)
	var errs []error
	for _, path := range paths {
		errs = append(errs, filepath.WalkDir(filepath.Join(Root(), path), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				_, err = os.ReadFile(path)
			}
			return err
		}))
	}
	return errors.Join(errs...)
}

// readInputsOfPlane reads what TestMain has started a control plane, the manager and the plug-in from.
var readInputsOfPlane = sync.OnceValue(func() error {
	for _, name := range []string{"KUBEBUILDER_ASSETS", "CLUSTER_BINARY"} {
		_ = os.Getenv(name)
	}
	return ReadInputs("config/crd/bases", "config/rbac", "config/webhook", "cmd/kubectl-happ", "main.go", "go.mod", "go.sum")
})
