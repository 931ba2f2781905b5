package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpGroup is the commands with the same purpose, in the order of the help.
type helpGroup struct {
	id, title string
	commands  []string
}

var helpGroups = []helpGroup{
	{"look", "Look:", []string{"list", "why", "tree", "logs", "history", "wait", "report", "ui"}},
	{"change", "Change:", []string{"plan", "rollback", "hold", "unhold", "promote", "abort", "pause", "suspend", "resume", "restart", "refresh", "run"}},
	{"move", "Come and go:", []string{"import", "adopt", "eject"}},
	{"set", "Set up:", []string{"check", "completion", "version"}},
}

// examples are the examples in the help of each command. NAME of the plug-in is replaced by how it was started.
var examples = map[string]string{
	"list":       "NAME list -A\nNAME list modelbox\nNAME list --state failing,stalled\nNAME list -o wide --sort-by since",
	"why":        "NAME why cart\nNAME why pod/cart-7d9c4-8x2kf",
	"tree":       "NAME tree cart\nNAME tree cart --limit 0",
	"logs":       "NAME logs cart\nNAME logs cart -f\nNAME logs pod/cart-7d9c4-8x2kf -c cart --previous=false",
	"report":     "NAME report cart > report.md",
	"history":    "NAME history cart\nNAME history cart --diff 2..3\nNAME history task/report",
	"wait":       "NAME wait cart\nNAME wait cart --timeout 5m --fail stalled",
	"ui":         "NAME ui -A\nNAME ui --read-only\nNAME ui --viewer -A --port 8080 --host apps.example.com",
	"plan":       "NAME plan cart --set image=nginx:1.27\nNAME plan -f cart.yaml",
	"rollback":   "NAME rollback cart\nNAME rollback cart --to 4 --wait",
	"hold":       "NAME hold cart\nNAME hold cart --to 4",
	"unhold":     "NAME unhold cart",
	"promote":    "NAME promote cart",
	"abort":      "NAME abort cart",
	"pause":      "NAME pause cart",
	"suspend":    "NAME suspend task/report",
	"resume":     "NAME resume cart --wait",
	"restart":    "NAME restart cart mbox/search --wait",
	"refresh":    "NAME refresh cart\nNAME refresh --all --wave 10%",
	"run":        "NAME run cart -- /app/report --since 24h\nNAME run cart -it -- sh\nNAME run cart --detach --deadline 2h -- /app/reindex",
	"import":     "NAME import web > web.yaml\nNAME import --all -o apps",
	"adopt":      "NAME adopt web",
	"eject":      "NAME eject cart > cart.yaml",
	"check":      "NAME check -n shop",
	"completion": "NAME completion bash",
	"version":    "NAME version",
}

// usageTemplate is that of cobra, with the flags of all commands left to the help of the plug-in itself.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$all := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $all}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{range $all}}{{if and (not .GroupID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasParent}}

"{{.Root.CommandPath}} --help" has the flags of all commands.{{end}}
`

// addHelp adds the groups and the examples to the help.
func (r *root) addHelp(cmd *cobra.Command) {
	cmd.SetUsageTemplate(usageTemplate)
	for _, group := range helpGroups {
		cmd.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, name := range group.commands {
			for _, below := range cmd.Commands() {
				if below.Name() == name {
					below.GroupID = group.id
					below.Example = "  " + strings.ReplaceAll(strings.ReplaceAll(examples[name], "NAME ", r.programName()+" "), "\n", "\n  ")
				}
			}
		}
	}
}
