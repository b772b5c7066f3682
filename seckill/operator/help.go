package operator

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Help prints kong's help. For a command that has others and runs one of them without a verb, such as miaosha itself,
// it prints its commands first, and then the flags of the default one.
func Help(options kong.HelpOptions, ctx *kong.Context) error {
	path, node := []string(nil), ctx.Model.Node
	for _, arg := range ctx.Args {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == arg })
		if i < 0 {
			break
		}
		path, node = append(path, arg), node.Children[i]
	}
	if node.DefaultCmd == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	name := strings.Join(append([]string{"miaosha"}, path...), " ")
	fmt.Fprintf(ctx.Stdout, "%s\n\nUsage: %s [<command>] [flags]\n\nCommands:\n", node.Help, name)
	table := tabwriter.NewWriter(ctx.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range node.Children {
		if !c.Hidden {
			fmt.Fprintf(table, "  %s\t%s\n", strings.Join(append(path, c.Name), " "), c.Help)
		}
	}
	table.Flush()
	fmt.Fprintf(ctx.Stdout, "\n%s <command> --help lists the flags of a command. These are the flags of %s:\n\n", name,
		node.DefaultCmd.Name)
	byDefault, err := kong.Trace(ctx.Kong, append(path, node.DefaultCmd.Name))
	if err != nil {
		return err
	}
	return kong.DefaultHelpPrinter(options, byDefault)
}
