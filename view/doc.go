// Package view computes what a person sees of a custom resource: a row of a table, the tree of its children, why it is not ready,
// how far a rollout is, and its history.
//
// It is pure, as package resource is: objects and the present time in, data and text out. The causes are those of package health,
// so that a page, a terminal and the status of a resource have the same words.
package view

// APIVersion is the version of the data, as programs read it.
const APIVersion = "cli.app.huolala.cn/v1"

// Meta says what a piece of data is, at its head.
type Meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func head(kind string) Meta { return Meta{APIVersion: APIVersion, Kind: kind} }
