package operator

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// Help prints what kong would, but for `miaosha --help`: there the commands come first and then every setting of the
// shop, since that is what miaosha does if nothing else is said.
func Help(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() != nil && ctx.Args[0] == ctx.Selected().Name {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	fmt.Fprintf(ctx.Stdout, "%s\n\nUsage: miaosha [<command>] [flags]\n\nCommands:\n", ctx.Model.Help)
	for _, c := range ctx.Model.Children {
		if !c.Hidden {
			fmt.Fprintf(ctx.Stdout, "  %-8s %s\n", c.Name, c.Help)
		}
	}
	fmt.Fprint(ctx.Stdout, "\nmiaosha <command> --help tells its flags. These are serve's:\n\n")
	serve, err := kong.Trace(ctx.Kong, []string{"serve"})
	if err != nil {
		return err
	}
	return kong.DefaultHelpPrinter(options, serve)
}
