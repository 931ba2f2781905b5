package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// outputFile is a file that a command writes, with a manifest as its text.
type outputFile struct{ path, text string }

// manifestPath returns the path of an object's file in a folder.
func manifestPath(folder string, obj object) string {
	kind := strings.ToLower(obj.GetObjectKind().GroupVersionKind().Kind)
	return filepath.Join(folder, kind+"-"+obj.GetName()+".yaml")
}

// isWritten reports whether the file exists with the text. A file with another content is an error: its user may have changed it, or it has an
// object of another namespace.
func (f *outputFile) isWritten() (bool, error) {
	has, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case string(has) != f.text:
		return false, f.existsError()
	}
	return true, nil
}

// errExists is the error for a file with another content, and the verb of its message.
var errExists = errors.New("exists")

func (f *outputFile) existsError() error {
	return fmt.Errorf("%s %w; remove it, or write into another folder", f.path, errExists)
}

// writeFile writes a file, and makes its folder if there is none. A file that exists is never written over.
func (r *root) writeFile(f *outputFile) error {
	written, err := f.isWritten()
	if err != nil {
		return err
	}
	if written {
		r.printf("Unchanged %s\n", f.path)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return f.existsError()
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.text)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(f.path) // A part of a manifest is worth nothing.
		return err
	}
	r.printf("Wrote %s\n", f.path)
	return nil
}
