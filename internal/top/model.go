package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// Model is the program on a terminal: looks come in as messages, keys scroll, pause and
// end it.
type Model struct {
	book     *Book
	picture  Picture
	screen   Screen
	interval time.Duration
	pause    func(bool)
}

// NewModel shows what goes into book. It tells pause whether looking is to be paused.
func NewModel(book *Book, interval time.Duration, pause func(bool)) *Model {
	return &Model{
		book: book, interval: interval, pause: pause, picture: book.Picture(time.Now()),
		screen: Screen{Width: 80, Height: 24, Interval: interval},
	}
}

// clockMsg has ages go on while no server answers.
type clockMsg time.Time

func (m *Model) tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return clockMsg(t) })
}

// Init starts the clock.
func (m *Model) Init() tea.Cmd { return m.tick() }

// Update takes a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.Width, m.screen.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case Look:
		m.book.Take(msg)
		m.draw(msg.At)
	case clockMsg:
		m.draw(time.Time(msg))
		return m, m.tick()
	}
	return m, nil
}

// draw makes the picture anew, unless it is to stay.
func (m *Model) draw(now time.Time) {
	if !m.screen.Paused {
		m.picture = m.book.Picture(now)
	}
}

func (m *Model) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "p", "space":
		m.screen.Paused = !m.screen.Paused
		m.pause(m.screen.Paused)
	case "?", "h":
		m.screen.Help, m.screen.Offset = !m.screen.Help, 0
	case "esc":
		m.screen.Help, m.screen.Offset = false, 0
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-m.screen.Height / 2)
	case "pgdown":
		m.scroll(m.screen.Height / 2)
	case "home":
		m.screen.Offset = 0
	}
	return nil
}

func (m *Model) scroll(by int) {
	_, hidden := Render(&m.picture, m.screen)
	m.screen.Offset = min(max(0, m.screen.Offset+by), hidden)
}

// View renders the screen.
func (m *Model) View() tea.View {
	text, _ := Render(&m.picture, m.screen)
	view := tea.NewView(text)
	view.AltScreen = true
	view.WindowTitle = "delaybridge top " + printable.Text(m.picture.Prefix)
	return view
}
