// Command observability generates the operator's dashboards in config/components/dashboards, and docs/observability.md. With -rules it also
// writes the alerts, and the expressions of the dashboards, as rule files for promtool.
//
// Usage: observability [-rules FOLDER], from the top of the tree.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/hack/observability/catalog"
)

func main() {
	rules := flag.String("rules", "", "folder for the rule files")
	flag.Parse()
	if err := run(*rules); err != nil {
		fmt.Fprintln(os.Stderr, "observability:", err)
		os.Exit(1)
	}
}

func run(rules string) error {
	alerts, err := catalog.Alerts(".")
	if err != nil {
		return err
	}
	files := map[string][]byte{"docs/observability.md": []byte(catalog.Page(alerts))}
	for _, d := range catalog.Dashboards() {
		if files["config/components/dashboards/"+d.UID+".json"], err = d.JSON(); err != nil {
			return err
		}
	}
	if rules != "" {
		for name, content := range map[string]any{"alerts.yaml": alerts, "dashboards.yaml": catalog.Expressions()} {
			if files[filepath.Join(rules, name)], err = yaml.Marshal(content); err != nil {
				return err
			}
		}
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
