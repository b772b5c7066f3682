package operator

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// Help prints kong's help, except for `miaosha --help`. That prints the commands first and then
// every setting of serve, the default command.
func Help(options kong.HelpOptions, ctx *kong.Context) error {
	if slices.ContainsFunc(ctx.Model.Children, func(c *kong.Node) bool { return c.Name == ctx.Args[0] }) {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	fmt.Fprintf(ctx.Stdout, "%s\n\nUsage: miaosha [<command>] [flags]\n\nCommands:\n", ctx.Model.Help)
	for _, c := range ctx.Model.Children {
		if !c.Hidden {
			fmt.Fprintf(ctx.Stdout, "  %-8s %s\n", c.Name, c.Help)
		}
	}
	fmt.Fprint(ctx.Stdout, "\nmiaosha <command> --help lists the flags of a command. These are the flags of serve:\n\n")
	serve, err := kong.Trace(ctx.Kong, []string{"serve"})
	if err != nil {
		return err
	}
	return kong.DefaultHelpPrinter(options, serve)
}
