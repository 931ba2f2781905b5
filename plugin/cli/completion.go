package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/plugin/view"
)

// completionScript is what kubectl runs to complete the arguments of a plug-in: a program of the name kubectl_complete-NAME.
const completionScript = "#!/bin/sh\nexec kubectl-happ __complete \"$@\"\n"

func (r *root) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use: "completion SHELL", Short: "Print the completion of this program for a shell, or install that of kubectl", Args: takesArguments(1, 1), ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(r.Out, true)
			case "zsh":
				return root.GenZshCompletion(r.Out)
			case "fish":
				return root.GenFishCompletion(r.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(r.Out)
			}
			return wrongUse(fmt.Errorf("%q is none of %s", args[0], strings.Join(shells, ", ")))
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "install", Short: "Write kubectl_complete-happ next to this program, so that kubectl completes its arguments", Args: takesArguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			path := filepath.Join(filepath.Dir(program), "kubectl_complete-happ")
			if err := os.WriteFile(path, []byte(completionScript), 0o755); err != nil {
				return err
			}
			r.printf("Wrote %s\n", path)
			return nil
		},
	})
	return cmd
}

// completeNames completes the name of a resource: an App's name, or KIND/NAME.
func (r *root) completeNames(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	kind, prefix := view.Kinds[0], ""
	if word, _, found := strings.Cut(begun, "/"); found {
		known, ok := view.KindOf(word)
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		kind, prefix = known, word+"/"
	}
	c, err := r.newClients()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := c.clientOf(kind, c.namespace).listResources(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range found {
		if name := prefix + found[i].ObjectMeta.Name; strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
