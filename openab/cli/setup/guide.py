"""How to write a configuration by hand, for where there is no terminal to ask on."""

GUIDE = """\
openab setup asks questions, and there is no terminal to ask on. By hand:

1. Make a bot: https://discord.com/developers/applications, New Application, Bot, Reset Token.
   On the same page switch on: Message Content Intent.
2. Invite it (OAuth2, URL Generator): scopes bot and applications.commands; permissions
   View Channels, Send Messages, Send Messages in Threads, Create Public Threads,
   Read Message History, Add Reactions.
3. Write config.toml:

   [discord]
   bot_token = "${DISCORD_BOT_TOKEN}"
   allowed_channels = ["123456789012345678"]   # or: allow_all_channels = true
   allowed_users = ["234567890123456789"]      # or: allow_all_users = true

   [agent]
   command = "claude-agent-acp"                # any program that speaks ACP on stdio
   args = []
   working_dir = "~/project"

4. export DISCORD_BOT_TOKEN=...   (chmod 600 whatever file that stands in)
   openab config check
   openab doctor
   openab run"""
