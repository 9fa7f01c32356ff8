package traffic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

func newOrderCommand(a *cli.App) *cobra.Command {
	parent := &cobra.Command{
		Use:   "order",
		Short: "Place, pay and list the orders of the running example",
		Long: `Keeps orders in an SQLite file, so that the whole example can be tried at a
shell: stock a shop, place an order, publish the message that will close it,
and have 'delaybridge consume --orders' close it, unless it is paid before.`,
		Example: `  delaybridge order stock --add tea=10
  eval "$(delaybridge order place o-1 --sku tea --in 10s)"
  delaybridge consume --queue closing --bind order.unpaid --orders orders.db --count 1
  delaybridge order list`,
	}
	cli.Group(parent)
	shop := &shop{App: a}
	parent.PersistentFlags().StringVar(&shop.file, "orders", "orders.db", "the SQLite file")
	parent.AddCommand(shop.placeCommand(), shop.payCommand(), shop.listCommand(), shop.stockCommand())
	return parent
}

// shop is what the order commands share.
type shop struct {
	*cli.App
	file string
}

func (s *shop) with(ctx context.Context, do func(*sqlite.Store) error) error {
	store, err := sqlite.Open(ctx, s.file)
	if err != nil {
		return err
	}
	if err := do(store); err != nil {
		_ = store.Shutdown()
		return err
	}
	return store.Shutdown()
}

func (s *shop) placeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "place ID --sku SKU [--quantity N] [--in 30m]",
		Short: "Place an order, and print the command that has it closed in time",
		Args:  cli.UsageArgs(cobra.ExactArgs(1)),
	}
	o := orders.Order{}
	cmd.Flags().StringVar(&o.SKU, "sku", "", "what is ordered (required)")
	cmd.Flags().IntVar(&o.Quantity, "quantity", 1, "how many pieces")
	in := cmd.Flags().String("in", "30m", "how long the customer has to pay")
	key := cmd.Flags().String("key", "order.unpaid", "routing key of the message")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.ID = args[0]
		// An order whose message cannot be published would never be closed.
		if err := errors.Join(o.Validate(), publishable(o.ID, *key, *in)); err != nil {
			return cli.Usage(err)
		}
		return s.with(cmd.Context(), func(store *sqlite.Store) error {
			if err := store.Place(cmd.Context(), o); err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "order %s is placed; now run:\n", printable.Text(o.ID))
			_, err := fmt.Fprintf(s.Out, "delaybridge publish --id %s --key %s --in %s\n", printable.Shell(o.ID), printable.Shell(*key), *in)
			return err
		})
	}
	return cmd
}

func publishable(id, key, in string) error {
	delay, err := wire.ParseDuration(in)
	if err != nil {
		return fmt.Errorf("--in: %w", err)
	}
	m := message.Message{ID: id, RoutingKey: key}
	return errors.Join(m.Validate(), message.After(delay).Validate(time.Now()))
}

func (s *shop) payCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pay ID",
		Short: "Pay an order; a closed one can no longer be paid",
		Args:  cli.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), func(store *sqlite.Store) error {
				if err := store.Pay(cmd.Context(), args[0]); err != nil {
					return err
				}
				fmt.Fprintf(s.Err, "order %s is paid\n", printable.Text(args[0]))
				return nil
			})
		},
	}
}

// listedOrder is what `order list` prints for each order.
type listedOrder struct {
	ID       string       `json:"id"`
	SKU      string       `json:"sku"`
	Quantity int          `json:"quantity"`
	State    orders.State `json:"state"`
	Placed   time.Time    `json:"placed"`
	Decided  *time.Time   `json:"decided,omitempty"` // when it was paid or closed
}

func (s *shop) listCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all orders, oldest first", Args: cli.UsageArgs(cobra.NoArgs)}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.with(cmd.Context(), func(store *sqlite.Store) error {
			all, err := store.Orders(cmd.Context())
			if err != nil {
				return err
			}
			listed := make([]listedOrder, len(all))
			for i, o := range all {
				listed[i] = listedOrder{o.ID, o.SKU, o.Quantity, o.State, o.Placed.UTC(), cli.Instant(o.Decided)}
			}
			header := []string{"ID", "SKU", "QUANTITY", "STATE", "PLACED", "DECIDED"}
			return cli.Emit(s.Out, *format, listed, header, func(o listedOrder) []string {
				decided := "-"
				if o.Decided != nil {
					decided = o.Decided.Format(time.RFC3339)
				}
				return []string{o.ID, o.SKU, strconv.Itoa(o.Quantity), string(o.State), o.Placed.Format(time.RFC3339), decided}
			})
		})
	}
	return cmd
}

// listedStock is what `order stock` prints for each SKU.
type listedStock struct {
	SKU       string `json:"sku"`
	Available int    `json:"available"`
}

func (s *shop) stockCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "stock [--add SKU=N]...", Short: "List the stock, after adding to it", Args: cli.UsageArgs(cobra.NoArgs)}
	add := cmd.Flags().StringToInt("add", nil, "add this many pieces of this SKU; may be repeated")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for sku, n := range *add {
			if sku == "" || n < 1 {
				return cli.Usage(fmt.Errorf("--add %s=%d: name a SKU and at least 1 piece", sku, n))
			}
		}
		return s.with(cmd.Context(), func(store *sqlite.Store) error {
			for sku, n := range *add {
				if err := store.Restock(cmd.Context(), sku, n); err != nil {
					return err
				}
			}
			stock, err := store.Stock(cmd.Context())
			if err != nil {
				return err
			}
			listed := make([]listedStock, len(stock))
			for i, line := range stock {
				listed[i] = listedStock(line)
			}
			return cli.Emit(s.Out, *format, listed, []string{"SKU", "AVAILABLE"}, func(line listedStock) []string {
				return []string{line.SKU, strconv.Itoa(line.Available)}
			})
		})
	}
	return cmd
}
