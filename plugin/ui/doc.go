// Package ui is the application centre: pages for a browser on the same machine, of what package view makes of the cluster. They are
// rendered on the server, and work without a script. With one, they show what changes while they are open. It acts as the user who has
// started it.
package ui
