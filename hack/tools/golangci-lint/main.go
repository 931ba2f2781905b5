// Program golangci-lint is golangci-lint with the linters of other modules that .golangci.yml names.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter" // Registers the linter kubeapilinter.
)

func main() {
	if err := commands.Execute(buildInfo()); err != nil {
		fmt.Fprintf(os.Stderr, "golangci-lint ended by an error: %v\n", err)
		os.Exit(exitcodes.Failure)
	}
}

// buildInfo returns the version of golangci-lint that this program is built from.
func buildInfo() commands.BuildInfo {
	info := commands.BuildInfo{Version: "unknown", Commit: "unknown", Date: "unknown"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.GoVersion = build.GoVersion
	for _, module := range build.Deps {
		if module.Path == "github.com/golangci/golangci-lint/v2" {
			info.Version = strings.TrimPrefix(module.Version, "v")
			info.Commit = module.Sum
		}
	}
	return info
}
