package view

import "strings"

// plugin is how kubectl runs this plug-in.
const plugin = "kubectl happ"

// CommandLine returns a command line that runs as it is printed, whatever the namespace of the user's context is: the words of a program and
// a subcommand, its arguments, and the namespace that it is about. An empty namespace is left out, for a command about the whole cluster.
// An argument that a shell would not take as it is gets quotes.
func CommandLine(namespace, program string, arguments ...string) string {
	words := []string{program}
	if namespace != "" {
		arguments = append(arguments[:len(arguments):len(arguments)], "-n", namespace)
	}
	for _, argument := range arguments {
		words = append(words, quoteArgument(argument))
	}
	return strings.Join(words, " ")
}

// PluginCommand returns a command line of the plug-in, see CommandLine.
func PluginCommand(namespace, subcommand string, arguments ...string) string {
	return CommandLine(namespace, plugin+" "+subcommand, arguments...)
}

// PluginCommand returns a command line of the plug-in that is about the resource: a subcommand, the resource, and flags.
func (r *Resource) PluginCommand(subcommand string, flags ...string) string {
	name := argumentOf(r.Kind, r.ObjectMeta.Name)
	return PluginCommand(r.ObjectMeta.Namespace, subcommand, append([]string{name}, flags...)...)
}

// quoteArgument returns an argument as a POSIX shell reads it: in quotes unless all of its characters are plain.
func quoteArgument(argument string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:=,+@%", c)
	}
	if argument != "" && !strings.ContainsFunc(argument, func(c rune) bool { return !plain(c) }) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
