// Package ansible replaces operator-sdk's plugin for projects in Ansible, which this project does not need. operator-sdk only requires that
// the plugin is registered.
package ansible

import (
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
)

// Plugin is registered, and does nothing.
type Plugin struct{}

// Name is what the plugin is registered as.
func (Plugin) Name() string { return "ansible.sdk.operatorframework.io" }

// Version is the plugin's version.
func (Plugin) Version() plugin.Version { return plugin.Version{Number: 1} }

// SupportedProjectVersions are the versions of PROJECT that the plugin takes.
func (Plugin) SupportedProjectVersions() []config.Version { return []config.Version{cfgv3.Version} }
